"""Plan, simulate and run training in feature slices, on real workers, and hold each against the other and PyG."""

from collections import Counter

import pytest
import torch

from gnnplan.planner import api
from gnnplan.planner.cluster import Cluster, DeviceSpec, HostSpec
from gnnplan.planner.graph_spec import SbmGraph
from gnnplan.planner.job import Job
from gnnplan.planner.job_pins import PinnedDecisions
from gnnplan.planner.loaders import load_graph
from gnnplan.planner.model_spec import ModelSpec
from gnnplan.planner.training_spec import TrainingSpec
from gnnplan.profiles.catalog import catalog_profile
from gnnplan.runtime.reference import train_reference
from tests import warm

pytestmark = pytest.mark.distributed

GRAPH = SbmGraph(
    source="sbm", num_nodes=203, average_degree=8, num_classes=5, num_features=13, feature_signal=3.0, seed=1
)
CASES = (("gcn", 2, 1), ("gat", 3, 1), ("appnp", 3, 1), ("gat", 4, 2))  # workers, groups; the first come by torchrun
EXACT = 1e-5


@pytest.fixture(scope="module")
def cluster(tmp_path_factory):
    """Workers with a published GPU's figures and the device kind of a CPU, of which one is slower."""
    folder, devices = tmp_path_factory.mktemp("profiles"), []
    for name in ("rtx-3090", "t4", "rtx-3090", "t4"):
        path = folder / f"{name}.json"
        catalog_profile(name).model_copy(update={"device_kind": "cpu", "num_threads": 1}).save(path)
        devices.append(DeviceSpec(profile=path))
    return Cluster(schema_version=1, hosts=(HostSpec(name="here", devices=tuple(devices)),))


@pytest.fixture(scope="module", params=CASES, ids=str)
def trained(request, cluster, tmp_path_factory):
    """Plan, prediction, measurement and the run's folder."""
    kind, num_workers, num_groups = request.param
    folder, slices = tmp_path_factory.mktemp(kind), {"feature_slices": {"num_groups": num_groups}}
    job = Job(
        schema_version=1,
        graph=GRAPH,
        model=ModelSpec(kind=kind, num_layers=3, hidden_channels=10, heads=2),
        training=TrainingSpec(epochs=4, seed=2, optimizer="sgd", learning_rate=0.1),
        pin=PinnedDecisions(num_workers=num_workers, balance="speed", decisions=slices),
    )
    plan = api.plan(job, cluster, folder / "plan.json")
    with warm.runs(warm=request.param != CASES[0]):
        measured = api.run(folder / "plan.json", folder / "run", timeout_s=60)
    return plan, api.simulate(plan), measured, folder / "run"


@pytest.mark.long
def test_the_pinned_layout_is_planned(trained):
    """Uneven slices, for one worker is slower."""
    plan, *_ = trained
    (chosen,) = (each for each in plan.choices if each.technique == "feature_slices")
    assert len(set(chosen.decision["shares"])) == 2
    assert plan.fidelity == "exact"
    assert 0 < plan.prediction.bound_s <= plan.prediction.epoch_s
    assert len(set(plan.cycle.spaces["v@0"].sizes)) == 2
    assert any(value.columns for value in plan.cycle.values.values())


def test_tasks_and_bytes_are_those_simulated(trained):
    """Every worker's task keys in every traced epoch, and what it sent, to the byte."""
    _, predicted, measured, _ = trained
    wanted = Counter((span.worker, span.task, span.category) for span in predicted.spans)
    for epoch in {span.epoch for span in measured.spans}:
        done = Counter((span.worker, span.task, span.category) for span in measured.spans if span.epoch == epoch)
        assert done == wanted
    assert measured.sent_bytes == predicted.sent_bytes
    assert min(measured.sent_bytes) > 0
    comparison = api.compare(predicted, measured)
    assert comparison.only_predicted == comparison.only_measured == ()


def test_it_trains_as_one_process_does(trained):
    """The relative L2 error of every parameter."""
    plan, _, measured, folder = trained
    net, losses = train_reference(load_graph(GRAPH), plan.job.model, plan.job.training)
    found = torch.load(folder / "model.pt", weights_only=True)
    assert measured.losses == pytest.approx(losses, rel=EXACT)
    for name, value in net.state_dict().items():
        assert float((found[name] - value).norm() / value.norm()) <= EXACT, name
