"""What-if prices the optimizer that a job has, with all of its arguments."""

import pytest

from gnnplan.planner.cluster import Cluster, DeviceSpec, HostSpec, resolve
from gnnplan.planner.job import Job
from gnnplan.planner.model_spec import ModelSpec
from gnnplan.planner.statistics.contract import Statistics
from gnnplan.planner.statistics.machine import machine_of
from gnnplan.planner.statistics.price import Pricer
from gnnplan.planner.statistics.stand_in import Structures
from gnnplan.planner.training_spec import TrainingSpec

MODEL = ModelSpec(kind="gcn", num_layers=2, hidden_channels=64)
SIZES = Statistics(num_nodes=1200, num_edges=9000, num_features=48, num_classes=5)


def least_bytes(**training) -> int:
    """Of the layout that takes least."""
    host = HostSpec(name="host", devices=(DeviceSpec(catalog="t4"),))
    job = Job(graph={"source": "sbm"}, model=MODEL, training=TrainingSpec(**training))
    found = Pricer(SIZES, Structures()).candidates(job, machine_of(resolve(Cluster(hosts=(host,)))))
    return min(each.memory[0].peak_bytes for each in found)


@pytest.mark.parametrize(
    ("plain", "more"),
    [
        ({"optimizer": "sgd"}, {"momentum": 0.9}),
        ({"optimizer": "adam"}, {"optimizer_arguments": {"amsgrad": True}}),
    ],
)
def test_a_moment_more_takes_its_bytes(plain, more):
    """It was left out, with clipping and the schedule."""
    weights = 4 * (48 * 64 + 64 + 64 * 5 + 5)
    assert least_bytes(**plain, **more) - least_bytes(**plain) == pytest.approx(weights, rel=0.05)
