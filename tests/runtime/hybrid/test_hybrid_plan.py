"""A plan that caches dependencies, made, simulated and run: exact, with the tasks and bytes predicted."""

import numpy as np
import pytest
import torch

from gnnplan.planner import api
from gnnplan.planner.calibrate import calibrate
from gnnplan.planner.cluster import Cluster, DeviceSpec, HostSpec
from gnnplan.planner.job import Job, ModelSpec, PinnedDecisions, SbmGraph, TrainingSpec
from gnnplan.planner.loaders import load_graph
from gnnplan.planner.plan import load_partition
from gnnplan.profiles.catalog import catalog_profile
from gnnplan.profiles.errors import UserError
from gnnplan.profiles.machine import Link
from gnnplan.runtime.reference import train_reference
from tests import warm

pytestmark = pytest.mark.distributed

GRAPH = SbmGraph(
    source="sbm", num_nodes=300, average_degree=8, num_classes=4, num_features=12, feature_signal=3.0, seed=1
)
TRAINING = TrainingSpec(epochs=6, seed=2, optimizer="sgd", learning_rate=0.2)
BUDGET = 20_000


@pytest.fixture(scope="module", params=["none", "online"])
def trained(request, tmp_path_factory):
    """(job, plan, partition, predicted, measured, folder) of two workers behind a slow link."""
    folder = tmp_path_factory.mktemp(request.param)
    profile = catalog_profile("rtx-3090").model_copy(update={"device_kind": "cpu", "num_threads": 1})
    profile.save(folder / "here.json")
    host = HostSpec(name="here", devices=(DeviceSpec(profile=folder / "here.json", count=2),))
    cluster = Cluster(hosts=(host,), device_link=Link(bytes_per_s=3e7))
    pin = PinnedDecisions(
        dependencies="hybrid",
        adjust=request.param,
        staged_bytes=BUDGET,
        partitioner="metis",
        balance="speed",
        op_order="multiply_first",
    )
    model = ModelSpec(num_layers=3, hidden_channels=8)
    job = Job(graph=GRAPH, model=model, training=TRAINING, pin=pin)
    plan = api.plan(job, cluster, folder / "plan.json")
    with warm.runs():
        measured = api.run(folder / "plan.json", folder / "run", timeout_s=100)
    return job, plan, load_partition(plan, folder / "plan.json"), api.simulate(plan), measured, folder


def test_it_trains_what_one_process_trains(trained):
    """Losses and weights, also where workers change what they cache as they go."""
    job, plan, _, _, measured, folder = trained
    net, losses = train_reference(load_graph(GRAPH), job.model, TRAINING)
    assert plan.fidelity == "exact"
    np.testing.assert_allclose(measured.losses, losses, rtol=1e-5)
    weights = torch.load(folder / "run" / "model.pt", weights_only=True)
    for key, weight in net.state_dict().items():
        assert float((weights[key] - weight).norm() / weight.norm().clamp(min=1e-3)) <= 1e-5, key


def test_some_dependencies_are_cached_and_the_plan_says_which(trained):
    """Within the budget, with its gap; the partition file has them, online also those that may be."""
    _, plan, partition, _, _, _ = trained
    decided = plan.layered.dependencies
    assert 0 < decided.num_cached < decided.num_dependencies
    assert partition.cached.shape == (3, decided.num_cached)
    assert partition.staged.shape[1] == (
        sum(w.num_staged for w in decided.workers) if decided.adjust == "online" else 0
    )
    for rank, worker in enumerate(decided.workers):
        assert worker.num_bytes <= worker.staged_bytes <= BUDGET
        assert worker.num_cached == int((partition.cached[0] == rank).sum())
        assert 0 <= worker.gap < 1
    assert all("dependencies cached" in candidate.summary for candidate in plan.considered)


def test_tasks_and_bytes_are_the_predicted_ones(trained):
    """Every task under every split; the bytes where the split stays as planned."""
    _, plan, _, predicted, measured, _ = trained
    assert {(s.task, s.worker, s.category) for s in measured.spans} == {
        (s.task, s.worker, s.category) for s in predicted.spans
    }
    if plan.layered.dependencies.adjust == "none":
        assert measured.sent_bytes == predicted.sent_bytes
        assert measured.adjustments == ()


def test_online_every_worker_tells_what_it_decided(trained):
    """After every epoch once warm, but the last, with gap and time; a run that changed does not calibrate."""
    _, plan, _, _, measured, _ = trained
    if plan.layered.dependencies.adjust == "none":
        return
    assert [(a.worker, a.epoch) for a in measured.adjustments] == [(w, e) for w in (0, 1) for e in (2, 3, 4)]
    for adjusted in measured.adjustments:
        assert adjusted.num_cached <= plan.layered.dependencies.workers[adjusted.worker].num_staged
        assert adjusted.gap >= -1e-12
        assert adjusted.seconds > 0
        assert adjusted.set_up_s >= 0
    changed = measured.adjustments[0].model_copy(update={"changed": True})
    trace = measured.model_copy(update={"adjustments": (changed,)})
    with pytest.raises(UserError, match="other rows than planned"):
        calibrate([(plan, trace)])
