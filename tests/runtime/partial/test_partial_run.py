"""A job with partial reduce and weather: planned, run on real workers, and what was measured is what was planned."""

import numpy as np
import pytest

from gnnplan.planner import api
from gnnplan.planner.cluster import Cluster, DeviceSpec, HostSpec
from gnnplan.planner.forecast.sleeps import planned_sleeps_s
from gnnplan.planner.graph_spec import SbmGraph
from gnnplan.planner.job import Job
from gnnplan.planner.job_pins import PartialReducePin, PinnedDecisions
from gnnplan.planner.model_spec import ModelSpec
from gnnplan.planner.partial.rule import WARM_UP_EPOCHS
from gnnplan.planner.plan import Plan
from gnnplan.planner.training_spec import TrainingSpec
from gnnplan.planner.weather.model import SleepWeather
from gnnplan.profiles.catalog import catalog_profile
from tests import warm

pytestmark = pytest.mark.distributed

GRAPH = SbmGraph(source="sbm", num_nodes=200, average_degree=8, num_classes=4, num_features=12, feature_signal=3.0)
NUM_WORKERS, EPOCHS, K = 3, 16, 2


@pytest.fixture(scope="module")
def ran(tmp_path_factory):
    """The plan, its prediction, and what was measured."""
    folder = tmp_path_factory.mktemp("weather")
    profile = folder / "here.json"
    catalog_profile("rtx-3090").model_copy(update={"device_kind": "cpu", "num_threads": 1}).save(profile)
    cluster = Cluster(hosts=(HostSpec(name="here", devices=(DeviceSpec(profile=profile, count=NUM_WORKERS),)),))
    job = Job(
        graph=GRAPH,
        model=ModelSpec(hidden_channels=8),
        training=TrainingSpec(
            epochs=EPOCHS, weather=SleepWeather(probability=0.15, sleep_s=0.4, seed=1), traced_epochs=EPOCHS
        ),
        fidelity="stale",
        pin=PinnedDecisions(
            dependencies="communicate",
            partial_reduce=PartialReducePin(alpha=0.5, max_staleness=K),
            op_order="multiply_first",
            precompute=False,
            balance="speed",
            num_workers=NUM_WORKERS,
        ),
    )
    api.plan(job, cluster, folder / "plan.json")
    plan = Plan.load(folder / "plan.json")
    events = []
    with warm.runs():
        measured = api.run(folder / "plan.json", folder / "run", timeout_s=60, on_event=events.append)
    return plan, api.simulate(plan), measured, events


@pytest.mark.long
def test_it_runs_as_decided(ran):
    """Some steps are without somebody, none is older than K epochs, all take part in the first and the last."""
    plan, _, measured, _ = ran
    assert plan.fidelity == f"stale({K + 1})"
    assert any(planned_sleeps_s(plan, worker).any() for worker in range(NUM_WORKERS))
    assert len(measured.num_members) == len(measured.oldest) == len(measured.losses) == EPOCHS
    assert min(measured.num_members) == 2
    assert set(measured.num_members[:WARM_UP_EPOCHS]) | {measured.num_members[-1]} == {NUM_WORKERS}
    assert 0 < max(measured.oldest) <= K


def test_tasks_and_bytes_are_the_predicted_ones(ran):
    """Of every worker in every epoch that it began and took part in."""
    _, predicted, measured, _ = ran
    assert measured.sent_bytes == predicted.sent_bytes
    seen = {(span.worker, span.epoch) for span in measured.spans}
    assert {(worker, WARM_UP_EPOCHS - 1) for worker in range(NUM_WORKERS)} < seen
    for worker, epoch in seen:
        keys, done = (
            sorted(span.task for span in trace.spans if (span.worker, span.epoch) == (worker, which))
            for trace, which in ((predicted, 0), (measured, epoch))
        )
        assert done == keys


def test_it_learns_and_tells_its_losses(ran):
    """Events come in order and end with the last epoch."""
    _, _, measured, events = ran
    assert measured.losses[-1] < measured.losses[0]
    assert measured.accuracy["test"] > 0.4
    assert events[-1]["epoch"] == EPOCHS - 1
    assert np.all(np.diff([event["epoch"] for event in events]) > 0)
