"""Dependencies are cached where the network is slow and memory allows it, never against a pin, and always in words."""

import json

import numpy as np
import pytest

from gnnplan.planner.cluster import Cluster, DeviceSpec, HostSpec
from gnnplan.planner.generate import generate_sbm
from gnnplan.planner.job import Job, ModelSpec, PinnedDecisions, SbmGraph
from gnnplan.planner.plan import Plan, load_partition, save_plan
from gnnplan.planner.report.tables import plan_table
from gnnplan.planner.search import named, simulate_plan
from gnnplan.profiles.errors import UserError
from gnnplan.profiles.machine import Link
from tests.planner.layered import make_plan

SPEC = SbmGraph(source="sbm", num_nodes=240, average_degree=8, num_classes=4, num_features=24)
GRAPH = generate_sbm(SPEC)
SLOW, FAST = 1e6, 1e14


def make(*, kind="gcn", num_layers=2, bytes_per_s=SLOW, memory_bytes=None, num_hosts=3, **pin):
    """The plan and partition of T4s, one a host."""
    device, link = DeviceSpec(catalog="t4", memory_bytes=memory_bytes), Link(bytes_per_s=bytes_per_s)
    cluster = Cluster(hosts=(HostSpec(name="h", count=num_hosts, devices=(device,), link=link),), device_link=link)
    pins = PinnedDecisions(**({"partitioner": "metis", "balance": "speed", "dependencies": "hybrid"} | pin))
    model = ModelSpec(kind=kind, num_layers=num_layers, hidden_channels=32, num_hops=2)
    return make_plan(Job(graph=SPEC, model=model, pin=pins), cluster, GRAPH)


@pytest.mark.parametrize("kind", ["gcn", "sage", "gat", "gin", "tagcn"])
def test_over_a_slow_network_caching_is_faster(kind):
    """Than communicating; exact, within memory and above its bound."""
    plain, hybrid = (make(kind=kind, dependencies=mode)[0] for mode in ("communicate", "hybrid"))
    decided = hybrid.decision.dependencies
    assert plain.replicas is None
    assert decided.num_cached > 0
    assert hybrid.fidelity == "exact"
    assert hybrid.prediction.bound_s <= hybrid.prediction.epoch_s < plain.prediction.epoch_s
    for ours, theirs in zip(hybrid.prediction.workers, plain.prediction.workers, strict=True):
        assert ours.sent_bytes < theirs.sent_bytes
        assert ours.peak_bytes <= ours.capacity_bytes
    for worker in decided.workers:
        assert 0 <= worker.saved_s <= worker.bound_s
        assert worker.num_staged == worker.num_cached
        assert worker.staged_bytes == worker.num_bytes


def test_over_a_network_that_costs_nothing_nothing_is_cached(monkeypatch):
    """And the epoch is the plain exchange's."""
    # The plain plan is to be lowered layer by layer too, as replicas still are.
    monkeypatch.setattr("gnnplan.planner.strategies.halo_exchange.has_program", lambda *_: False)
    pin = {"op_order": "multiply_first", "bytes_per_s": FAST}
    plain, hybrid = make(dependencies="communicate", **pin)[0], make(**pin)[0]
    assert hybrid.decision.dependencies.num_cached == 0
    assert hybrid.prediction.epoch_s == pytest.approx(plain.prediction.epoch_s, rel=0.01)
    assert [w.sent_bytes for w in hybrid.prediction.workers] == [w.sent_bytes for w in plain.prediction.workers]


def test_cache_is_everything_and_sends_no_row():
    """Whatever it costs."""
    plan, partition = make(dependencies="cache", bytes_per_s=FAST)
    decided = plan.layered.dependencies
    assert decided.num_cached == decided.num_dependencies == partition.cached.shape[1] > 0
    assert all(load.sent_bytes == 0 for load in plan.prediction.workers)


def test_sparse_rows_count_with_their_entries():
    """Of the inputs of all replicas: no zero is held, though here there is none, but a transpose."""
    pin = {"dependencies": "cache", "balance": "equal", "op_order": "multiply_first"}
    dense, sparse = (make(**pin, sparse_features=is_sparse)[0] for is_sparse in (False, True))
    for rank, (ours, theirs) in enumerate(
        zip(sparse.decision.dependencies.workers, dense.decision.dependencies.workers, strict=True)
    ):
        more_bytes = (2 * 8 - 4) * SPEC.num_features * dense.replicas.num_replicas(rank, 0)
        assert ours.num_bytes - theirs.num_bytes == more_bytes > 0


def test_hybrid_is_no_slower_than_either():
    """Of its own choice, nothing and everything the fastest is taken; all are listed."""
    pin = {"op_order": "multiply_first", "bytes_per_s": 3e7, "num_layers": 3}
    plan = make(**pin)[0]
    for mode in ("cache", "communicate"):
        assert plan.prediction.epoch_s <= make(dependencies=mode, **pin)[0].prediction.epoch_s * 1.001
    assert len({candidate.summary for candidate in plan.considered}) > 1
    assert all("dependencies cached" in candidate.summary for candidate in plan.considered)


@pytest.mark.parametrize("budget", [0, 3000, 10**9])
def test_the_budget_is_kept(budget):
    """By what is cached, and online by all that is staged."""
    plan, partition = make(staged_bytes=budget, adjust="online", op_order="multiply_first", num_layers=3)
    for worker in plan.layered.dependencies.workers:
        assert worker.num_bytes <= worker.staged_bytes <= budget
        assert worker.num_cached <= worker.num_staged <= worker.num_dependencies
        assert (worker.num_staged == worker.num_dependencies) == (budget == 10**9)
    pairs = [set(map(tuple, triples.T.tolist())) for triples in (partition.cached, partition.staged)]
    assert pairs[0] <= pairs[1]
    assert len(pairs[1]) == sum(worker.num_staged for worker in plan.layered.dependencies.workers)


def test_memory_limits_what_is_cached():
    """Less memory, fewer replicas; a plan still fits."""
    pin = {"op_order": "multiply_first", "num_layers": 3}
    roomy = make(**pin)[0]
    least = max(load.peak_bytes for load in make(dependencies="communicate", **pin)[0].prediction.workers)
    tight = make(memory_bytes=least + 2**17, **pin)[0]
    assert tight.decision.dependencies.num_cached < roomy.decision.dependencies.num_cached
    assert all(load.peak_bytes <= load.capacity_bytes for load in tight.prediction.workers)


def test_online_more_memory_is_asked_for():
    """What is staged and the most that may be made count, though less is planned."""
    none, online = (
        make(adjust=adjust, op_order="multiply_first", bytes_per_s=FAST)[0] for adjust in ("none", "online")
    )
    for ours, theirs in zip(online.prediction.workers, none.prediction.workers, strict=True):
        assert ours.peak_bytes > theirs.peak_bytes
    assert online.prediction.epoch_s == none.prediction.epoch_s


def test_one_worker_has_no_dependencies():
    """The plan is the plain one."""
    plan = make(num_hosts=1)[0]
    assert plan.replicas is None
    assert plan.layered.dependencies.mode == "communicate"


@pytest.mark.parametrize(("kind", "words"), [("tagcn", "tagcn adds"), ("sage", "sage adds")])
def test_an_order_that_leaves_no_replica_is_refused_in_words(kind, words):
    """Where the job pins it; left free the planner takes another."""
    with pytest.raises(UserError, match=rf"pin\.dependencies 'hybrid' cannot be used: {words}"):
        make(kind=kind, op_order="multiply_first")
    assert make(kind=kind)[0].layered.dependencies.mode == "hybrid"


def test_a_plan_on_disk_is_the_plan_that_was_made(tmp_path):
    """With the dependencies beside it, under its checksum; it simulates as predicted and prints its gap."""
    path = tmp_path / "plan.json"
    plan, partition = make(adjust="online", num_layers=3, op_order="multiply_first")
    save_plan(named(plan, path), partition, path)
    loaded = Plan.load(path)
    assert loaded == named(plan, path)
    assert simulate_plan(loaded).epoch_s == (plan.prediction.epoch_s,)
    read = load_partition(loaded, path)
    for name in ("part", "cached", "staged"):
        np.testing.assert_array_equal(getattr(read, name), getattr(partition, name))
    np.savez(tmp_path / loaded.partition_file, part=read.part, cached=read.cached[:, 1:], staged=read.staged)
    with pytest.raises(UserError, match="not the partition this plan"):
        load_partition(loaded, path)
    text = "".join(str(cell) for column in plan_table(plan).renderables[0].columns for cell in column.cells)
    assert "dependencies" in text
    assert "gap" in text


EDITS = {
    "replicas left out": (lambda raw: raw.update(replicas=None), "replicas must be there"),
    "a worker missing": (lambda raw: raw["decision"]["dependencies"]["workers"].pop(), "must each have 3 workers"),
    "other mode": (lambda raw: raw["decision"]["dependencies"].update(mode="communicate"), "replicas must be there"),
    "other levels": (lambda raw: raw["replicas"].update(first=1), "levels 0 to 1 must be there"),
    "more rows than the halo": (
        lambda raw: raw.update(send_counts=[[0] * 3] * 3), "more rows are sent"
    ),
}  # fmt: skip


@pytest.mark.parametrize("edit", EDITS)
def test_a_plan_edited_by_hand_is_refused(edit, tmp_path):
    """In one line."""
    path = tmp_path / "plan.json"
    plan, partition = make(op_order="multiply_first", bytes_per_s=FAST)
    save_plan(named(plan, path), partition, path)
    raw = json.loads(path.read_text())
    change, words = EDITS[edit]
    change(raw)
    path.write_text(json.dumps(raw))
    with pytest.raises(UserError, match=words):
        Plan.load(path)


PINS = {
    "prune": {"dependencies": "hybrid", "prune": "rapa"},
    "refresh_interval": {"dependencies": "cache", "refresh_interval": 3},
    "adjust": {"dependencies": "cache", "adjust": "online"},
    "staged_bytes": {"staged_bytes": 5},
    "max_staleness": {"dependencies": "hybrid", "adjust": "online", "partial_reduce": {"max_staleness": 0}},
}


@pytest.mark.parametrize("fault", PINS)
def test_pins_that_do_not_combine_are_refused(fault):
    """The message names both."""
    with pytest.raises(ValueError, match=fault):
        PinnedDecisions(**PINS[fault])
