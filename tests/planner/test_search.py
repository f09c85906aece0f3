"""From a job and a cluster to a plan: pins, prediction and fit, on real small graphs."""

from pathlib import Path

import pytest

from benchmarks.oracles.halo import build_halo
from gnnplan.planner.adjacency import aggregation_matrix
from gnnplan.planner.cluster import Cluster, DeviceSpec, HostSpec, resolve
from gnnplan.planner.generate import generate_sbm
from gnnplan.planner.graph_spec import SbmGraph
from gnnplan.planner.job import Job
from gnnplan.planner.job_pins import PinnedDecisions
from gnnplan.planner.model_spec import ModelSpec
from gnnplan.planner.search import make_plan, named, simulate_plan
from gnnplan.profiles.errors import NoPlanFitsError, UserError

SPEC = SbmGraph(source="sbm", num_nodes=200, average_degree=8, num_classes=4, num_features=16)
GRAPH = generate_sbm(SPEC)


def cluster_of(*devices, memory_bytes=None):
    """One host a device name."""
    hosts = [
        HostSpec(name=f"h{i}", devices=(DeviceSpec(catalog=name, memory_bytes=memory_bytes),))
        for i, name in enumerate(devices)
    ]
    return Cluster(hosts=tuple(hosts))


def job_of(kind="gcn", **pin):
    """A small job on the test graph."""
    return Job(graph=SPEC, model=ModelSpec(kind=kind, hidden_channels=16), pin=PinnedDecisions(**pin))


@pytest.mark.long
@pytest.mark.parametrize("kind", ["gcn", "sage", "gat", "gin", "tagcn"])
def test_plan_predicts_what_simulating_it_gives(kind):
    """The prediction in the plan is its own schedule played on the virtual clock."""
    plan, partition = make_plan(job_of(kind), cluster_of("rtx-3090", "t4"), GRAPH)
    trace = simulate_plan(plan)
    prediction = plan.prediction
    assert trace.median_epoch_s == prediction.epoch_s >= prediction.bound_s > 0
    for category in ("compute", "communicate", "host"):
        assert trace.category_s(category) == pytest.approx(getattr(prediction, f"{category}_s"))
    assert trace.peak_bytes == tuple(load.peak_bytes for load in prediction.workers)
    assert trace.sent_bytes == tuple(load.sent_bytes for load in prediction.workers)
    assert plan.partition_sha256 == partition.digest()


def test_epochs_whose_tasks_fluctuate_take_longer(tmp_path):
    """Workers wait for whoever is slowest this time; without a measured spread they all take the same."""
    plan, _ = make_plan(job_of(), cluster_of("rtx-3090", "rtx-3090"), GRAPH)
    assert simulate_plan(plan, 20).expected_epoch_s == pytest.approx(plan.prediction.epoch_s)
    profile = plan.placement.profile_of(0)
    tables = {
        name: table.model_copy(
            update={"points": tuple(p.model_copy(update={"spread_s": 0.5 * p.median_s}) for p in table.points)}
        )
        for name, table in profile.operators.items()
    }
    path = profile.model_copy(update={"operators": tables}).save(tmp_path / "varying.json")
    hosts = tuple(HostSpec(name=name, devices=(DeviceSpec(profile=path),)) for name in ("a", "b"))
    varying, _ = make_plan(job_of(), Cluster(hosts=hosts), GRAPH)
    trace = simulate_plan(varying, 400)
    assert trace.median_epoch_s == varying.prediction.epoch_s
    assert trace.fluctuating is not None
    assert trace.median_epoch_s < trace.expected_epoch_s == trace.fluctuating.p50_s < trace.fluctuating.p95_s
    assert simulate_plan(varying).fluctuating is None


def test_plan_describes_the_partition_it_was_made_with():
    """Vertices, edges and rows received are those of the returned partition."""
    job = job_of(num_workers=3, dependencies="communicate")
    plan, partition = make_plan(job, cluster_of("t4", "t4", "t4"), GRAPH)
    halo = build_halo(aggregation_matrix(GRAPH.num_nodes, GRAPH.edge_index, "gcn"), partition.part, 3)
    assert plan.shares() == tuple(
        (len(block.vertices), block.local.nnz + block.remote.nnz, len(block.halo)) for block in halo.blocks
    )


def test_pinned_workers_are_the_first_of_the_cluster():
    """Only their profiles go into the plan."""
    plan, partition = make_plan(job_of(num_workers=1), cluster_of("t4", "rtx-3090"), GRAPH)
    assert plan.num_workers == 1
    assert [profile.name for profile in plan.placement.profiles.values()] == ["t4"]
    assert not partition.part.any()
    assert plan.prediction.communicate_s == 0


def test_unknown_collectives_are_called_unprofiled():
    """A network nobody measured is a guess, and the plan says which tasks rest on it."""
    plan, _ = make_plan(job_of(num_workers=2), cluster_of("t4", "t4"), GRAPH)
    spans = {span.task for span in simulate_plan(plan).spans if span.unprofiled}
    assert "reduce" in plan.prediction.unprofiled
    assert set(plan.prediction.unprofiled) == spans


def test_what_cannot_run_at_all_is_a_user_error():
    """More workers than devices, or than vertices, is the user's to change."""
    with pytest.raises(UserError, match="3 workers asked for"):
        make_plan(job_of(num_workers=3), cluster_of("t4"), GRAPH)
    one = generate_sbm(SPEC.model_copy(update={"num_nodes": 1, "num_classes": 1}))
    with pytest.raises(UserError, match="2 workers for 1 vertices"):
        make_plan(job_of(), cluster_of("t4", "t4"), one)


@pytest.mark.long
def test_no_plan_fits_where_memory_is_short():
    """The nearest miss is raised, not a plan that would fail."""
    with pytest.raises(NoPlanFitsError, match="bytes are missing"):
        make_plan(job_of(), cluster_of("t4", "t4", memory_bytes=10_000), GRAPH)


def test_planning_is_deterministic():
    """The same inputs give the same plan, to the fingerprint."""
    plans = [make_plan(job_of("sage"), cluster_of("t4", "rtx-3090"), GRAPH)[0] for _ in range(2)]
    assert plans[0].fingerprint() == plans[1].fingerprint()


def test_named_plan_points_beside_itself():
    """The partition file carries the plan's name and no folder."""
    plan, _ = make_plan(job_of(), cluster_of("t4"), GRAPH)
    assert named(plan, Path("somewhere/big.json")).partition_file == "big.partition.npz"


def test_steps_are_told_in_order():
    """Workers alone come first, simulating last."""
    told = []
    make_plan(job_of(), cluster_of("t4", "t4"), GRAPH, told.append)
    assert told[0] == "choosing operators for h0 alone"
    assert told[-1] == "simulating the chosen plan"


def test_as_many_workers_are_used_as_pay():
    """On so small a graph one is faster than two that exchange; pinned, all are used."""
    cluster = cluster_of("t4", "rtx-3090")
    assert make_plan(job_of(num_workers=2), cluster, GRAPH)[0].placement == resolve(cluster)
    plan, _ = make_plan(job_of(), cluster, GRAPH)
    assert [worker.host for worker in plan.placement.workers] == ["h1"]
    assert list(plan.placement.profiles) == [plan.placement.workers[0].profile]
