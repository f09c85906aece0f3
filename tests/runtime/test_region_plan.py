"""Plans whose workers hold rows together in their host's memory: planned, run on two workers, and compared."""

import pytest
import torch
from emulating import needs_emulation

from gnnplan.planner import api
from gnnplan.planner.cluster import Cluster, DeviceSpec, HostSpec
from gnnplan.planner.emulation.emulate import emulated
from gnnplan.planner.graph_spec import SbmGraph
from gnnplan.planner.job import Job
from gnnplan.planner.job_pins import PinnedDecisions
from gnnplan.planner.loaders import load_graph
from gnnplan.planner.model_spec import ModelSpec
from gnnplan.planner.models.pyg_models import build_pyg_model
from gnnplan.planner.plan_files import load_partition
from gnnplan.planner.program.sequential import SequentialExecutor
from gnnplan.planner.run import cycle_of
from gnnplan.planner.training_spec import TrainingSpec
from gnnplan.profiles.catalog import catalog_profile
from gnnplan.profiles.machine import Link
from gnnplan.runtime.reference import train_reference
from tests import warm
from tests.runtime.regions import no_region_is_left

pytestmark = pytest.mark.distributed

GRAPH = SbmGraph(
    source="sbm", num_nodes=200, average_degree=8, num_classes=4, num_features=12, feature_signal=3.0, seed=1
)
EPOCHS = 5


@pytest.fixture(scope="module")
def cluster(tmp_path_factory):
    """Two workers on one host behind a slow link between devices; the host gives memory."""
    path = tmp_path_factory.mktemp("profile") / "here.json"
    catalog_profile("rtx-3090").model_copy(update={"device_kind": "cpu", "num_threads": 1}).save(path)
    host = HostSpec(name="here", devices=(DeviceSpec(profile=path, count=2),), region_bytes=2**24)
    return Cluster(hosts=(host,), device_link=Link(bytes_per_s=1e6))


def job_of(kind, interval):
    pin = PinnedDecisions(
        dependencies="communicate", num_workers=2, refresh_interval=interval, balance="speed", feature_cache=False
    )
    return Job(
        graph=GRAPH,
        model=ModelSpec(kind=kind, num_layers=2, hidden_channels=8, heads=2, num_hops=2),
        training=TrainingSpec(optimizer="sgd", learning_rate=0.2, epochs=EPOCHS, seed=2),
        fidelity="stale" if interval > 1 else "exact",
        pin=pin,
    )


def planned_and_run(job, cluster, folder, *, is_warm=True):
    plan = api.plan(job, cluster, folder / "plan.json")
    assert "host_region" in {chosen.technique for chosen in plan.choices}
    with warm.runs(warm=is_warm):
        return plan, api.run(folder / "plan.json", folder / "run", timeout_s=60)


@pytest.fixture(scope="module", params=[(kind, r) for kind in ("gcn", "gat") for r in (1, 3)], ids=str)
def trained(request, cluster, tmp_path_factory):
    """Plan, its prediction, what was measured, and the folder; the first one's workers come by torchrun."""
    kind, interval = request.param
    folder = tmp_path_factory.mktemp(kind)
    is_warm = request.param != ("gcn", 1)
    plan, measured = planned_and_run(job_of(kind, interval), cluster, folder, is_warm=is_warm)
    return plan, api.simulate(plan), measured, folder


@pytest.mark.long
def test_tasks_and_bytes_are_the_predicted_ones(trained):
    """Those of refreshing and of reusing epochs, with what is put into the region, waited for and read."""
    plan, predicted, measured, _ = trained
    assert measured.sent_bytes == predicted.sent_bytes
    assert measured.reuse_sent_bytes == predicted.reuse_sent_bytes
    interval = plan.refresh_interval
    for worker in (0, 1):
        for epoch in {span.epoch for span in measured.spans}:
            which = int(epoch % interval > 0)
            done, keys = (
                sorted((s.task, s.category) for s in trace.spans if (s.worker, s.epoch) == (worker, at))
                for trace, at in ((measured, epoch), (predicted, which))
            )
            assert done == keys
            words = {task.split("/")[-1] for task, _ in keys}
            assert ({"publish", "barrier"} <= words) == (which == 0)
            assert "find" in words


def test_losses_are_those_of_the_sequential_executor(trained):
    """Epoch by epoch; and without a refresh interval those of PyG in one process."""
    plan, _, measured, folder = trained
    graph = load_graph(plan.job.graph)
    cycle = cycle_of(plan, graph, load_partition(plan, folder / "plan.json"))
    x, y = torch.from_numpy(graph.x), torch.from_numpy(graph.y)[:, None]
    ids = {name: cycle.arrays.ids[cycle.values[name].space] for name in ("x", "y")}
    inputs = {name: [of[rows] for rows in ids[name]] for name, of in (("x", x), ("y", y))}
    net = build_pyg_model(plan.job.model, graph.num_features, graph.num_classes, plan.job.training.seed)
    weights = {n: p.detach().reshape(len(p) if p.dim() > 1 else 1, -1) for n, p in net.named_parameters()}
    results = SequentialExecutor(cycle, inputs, weights).train(EPOCHS)
    want = [float(next(iter(each.values()))[0]) for each in results]
    assert measured.losses == pytest.approx(want, rel=1e-5)
    if plan.refresh_interval == 1:
        _, losses = train_reference(graph, plan.job.model, plan.job.training)
        assert measured.losses == pytest.approx(losses, rel=1e-5)
    else:
        assert measured.losses != pytest.approx(losses_without(plan), rel=1e-6)


def losses_without(plan):
    """Of the exact training."""
    return train_reference(load_graph(plan.job.graph), plan.job.model, plan.job.training)[1]


def test_the_region_is_the_planned_one_and_goes(trained):
    """Its bytes are known to the plan, and nothing of it is left when the run has ended."""
    plan, _, _, folder = trained
    (layout,) = plan.region_layouts().values()
    assert 0 < layout.num_bytes <= 2**24
    assert layout.ranks == (0, 1)
    assert no_region_is_left(folder)


@pytest.mark.long
@needs_emulation
def test_two_hosts_of_two_workers(cluster, tmp_path, monkeypatch):
    """Each host has its own region; less passes the network, and the losses are those without regions."""
    (here,) = cluster.hosts
    traces = {}
    for region_bytes in (0, 2**24):
        host = here.model_copy(update={"count": 2, "region_bytes": region_bytes, "link": Link(bytes_per_s=1.25e7)})
        hosts = cluster.model_copy(update={"hosts": (host,)})
        job = job_of("gcn", 3)
        job = job.model_copy(update={"pin": job.pin.model_copy(update={"num_workers": 4, "precompute": False})})
        plan = api.plan(job, hosts, tmp_path / "plan.json")
        assert len(plan.region_layouts()) == (2 if region_bytes else 0)
        with emulated(hosts) as (_, _, environment), monkeypatch.context() as patched:
            for name, value in environment.items():
                patched.setenv(name, value)
            traces[region_bytes] = api.run(tmp_path / "plan.json", tmp_path / f"run_{region_bytes}", timeout_s=60)
        assert traces[region_bytes].sent_bytes == api.simulate(plan).sent_bytes
    assert traces[2**24].losses == pytest.approx(traces[0].losses, rel=1e-6)
    assert sum(traces[2**24].sent_bytes) < sum(traces[0].sent_bytes)
    assert no_region_is_left(tmp_path)
