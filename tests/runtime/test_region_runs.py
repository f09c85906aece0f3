"""Plans whose hosts keep halo rows for their workers: they run as planned, and fail in the open."""

import json
import os
import signal
from pathlib import Path

import pytest

from gnnplan.planner import api
from gnnplan.planner.cluster import Cluster, DeviceSpec, HostSpec
from gnnplan.planner.graph_spec import SbmGraph
from gnnplan.planner.job import Job
from gnnplan.planner.job_pins import PinnedDecisions
from gnnplan.planner.model_spec import ModelSpec
from gnnplan.planner.plan import Plan
from gnnplan.planner.training_spec import TrainingSpec
from gnnplan.profiles.agents import workers_of
from gnnplan.profiles.catalog import catalog_profile
from gnnplan.profiles.errors import RunFailedError, UserError
from gnnplan.profiles.machine import Link
from gnnplan.runtime.execution.peers import REGION_NAME
from tests.runtime.regions import no_region_is_left

pytestmark = pytest.mark.distributed

GRAPH = SbmGraph(source="sbm", num_nodes=200, average_degree=8, num_classes=4, num_features=12, seed=1)


@pytest.fixture(scope="module")
def profile(tmp_path_factory):
    """A published GPU's figures with the device kind of a CPU."""
    path = tmp_path_factory.mktemp("profile") / "here.json"
    catalog_profile("rtx-3090").model_copy(update={"device_kind": "cpu", "num_threads": 1}).save(path)
    return path


def plan_of(profile, path, *, epochs=5, **host):
    """A plan of two workers of one host over a slow link, refreshed every third epoch."""
    device = DeviceSpec(profile=profile, count=2, memory_bytes=host.pop("memory_bytes", None))
    cluster = Cluster(
        hosts=(HostSpec(name="here", devices=(device,), **host),), device_link=Link(bytes_per_s=1e6, latency_s=1e-5)
    )
    pin = PinnedDecisions(
        dependencies="communicate", op_order="multiply_first", refresh_interval=3, balance="speed", num_workers=2
    )
    model = ModelSpec(hidden_channels=8)
    job = Job(graph=GRAPH, model=model, training=TrainingSpec(epochs=epochs), fidelity="stale", pin=pin)
    return api.plan(job, cluster, path)


def plan_with_region(profile, path, **changes):
    """Its host has room for all rows."""
    plan = plan_of(profile, path, region_bytes=2**22, **changes)
    assert {chosen.technique for chosen in plan.choices} >= {"host_region", "joint_cache"}
    return plan


@pytest.mark.long
def test_it_runs_as_simulated(profile, tmp_path):
    """Tasks of both kinds of epochs, and the bytes of both, are the predicted ones; the loss falls; nothing is left."""
    plan = plan_with_region(profile, tmp_path / "plan.json")
    measured = api.run(tmp_path / "plan.json", tmp_path / "run", timeout_s=60)
    predicted = api.simulate(plan)
    assert measured.sent_bytes == predicted.sent_bytes
    assert measured.reuse_sent_bytes == predicted.reuse_sent_bytes == (0, 0)
    # No row leaves for its readers, who find it in the region; the gradients come back.
    cycle = plan.cycle.cycle()
    travelling = [op for op in cycle.operators_of_epochs() if op.kind == "exchange"]
    assert travelling
    assert all(op.attributes.get("back") for op in travelling)
    gradients = sum(cycle.num_bytes(op.reads[0], 0) for op in travelling)
    assert measured.sent_bytes[0] == gradients > 0
    for worker in (0, 1):
        for epoch in {span.epoch for span in measured.spans}:
            keys, done = (
                sorted(s.task for s in trace.spans if (s.worker, s.epoch) == (worker, which))
                for trace, which in ((predicted, int(epoch % 3 > 0)), (measured, epoch))
            )
            assert done == keys
    comparison = api.compare(predicted, measured)
    assert comparison.only_predicted == comparison.only_measured == ()
    assert measured.losses[-1] < measured.losses[0]
    assert no_region_is_left(tmp_path / "run")


@pytest.mark.long
def test_a_worker_that_dies_with_rows_in_the_region_is_named(profile, tmp_path):
    """The run ends with its name, no process waits for it, and no region is left."""
    plan_with_region(profile, tmp_path / "plan.json", epochs=100_000)
    killed = []

    def kill(event):
        if not killed:
            victim = workers_of(tmp_path / "run")[1]
            assert REGION_NAME in Path(f"/proc/{victim}/maps").read_text()
            os.kill(victim, signal.SIGKILL)
            killed.append(victim)

    with pytest.raises(RunFailedError, match="worker 1 was ended by SIGKILL"):
        api.run(tmp_path / "plan.json", tmp_path / "run", timeout_s=60, on_event=kill)
    assert killed
    assert no_region_is_left(tmp_path / "run")
    assert not (tmp_path / "run" / "measured.json").exists()


@pytest.mark.long
def test_a_plan_whose_region_its_host_has_not_is_refused(profile, tmp_path):
    """A plan file for a smaller host than it was made for is an error before any worker starts."""
    path = tmp_path / "plan.json"
    plan_with_region(profile, path)
    raw = json.loads(path.read_text())
    for worker in raw["placement"]["workers"]:
        worker["region_bytes"] = 1000
    path.write_text(json.dumps(raw))
    with pytest.raises(UserError, match=r"host here needs a region of [\d,]+ bytes and has one of 1,000"):
        Plan.load(path)
