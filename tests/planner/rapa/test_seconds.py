"""lambda in seconds: what the pruned partition's own lowering and links say, and falling with every pruned vertex."""

from dataclasses import replace

import numpy as np
import pytest

from gnnplan.planner.halo import prune_halo
from gnnplan.planner.joint_cache.decision import NO_CACHE, CacheDecision
from gnnplan.planner.joint_cache.region import decide_rows
from gnnplan.planner.network import Network
from gnnplan.planner.rapa.pairs import HaloPairs, Loads
from gnnplan.planner.rapa.seconds import RESERVED_BYTES, SecondsCost
from tests.planner.rapa.problems import AGGREGATE, GRAPH, MULTIPLY, ONCE, problem_of, trial_of

CASES = [
    *[(kind, MULTIPLY) for kind in ("gcn", "sage", "gat", "gin", "tagcn")],
    ("gcn", AGGREGATE),
    ("sage", AGGREGATE),
    ("gcn", ONCE),
    ("tagcn", ONCE),
]


def case_of(kind="gcn", order=MULTIPLY, **placement):
    """(trial, its pairs, layers)."""
    trial = trial_of(problem_of(kind, **placement))
    return trial, HaloPairs.of(GRAPH, trial.halo), (order, MULTIPLY)


@pytest.mark.parametrize(("kind", "order"), CASES)
def test_a_choice_costs_what_its_pruned_partition_costs(kind, order):
    """Seconds of its lowered tasks, memory included: nothing of a halo is counted that is not there."""
    trial, pairs, layers = case_of(kind, order)
    cost, kept = SecondsCost(trial, layers), pairs.everything
    kept[::3] = False
    less = trial_of(trial.problem, trial.part, prune_halo(trial.halo, pairs.pruned(kept)))
    tasks = less.lowering(layers).lower().tasks
    own = [sum(t.seconds for t in tasks if t.worker == w and t.category != "communicate") for w in range(3)]
    assert cost.compute_s(pairs.loads(kept)) == pytest.approx(own)
    assert SecondsCost(less, layers)(pairs.loads(kept)) == pytest.approx(cost(pairs.loads(kept)))
    peak = [estimate.peak_bytes for estimate in less.memory(layers)]
    placement = trial.problem.placement
    for free in (-1, 0):
        held = [need + RESERVED_BYTES + free for need in peak]
        places = tuple(w.model_copy(update={"memory_bytes": b}) for w, b in zip(placement.workers, held, strict=True))
        problem = replace(trial.problem, placement=placement.model_copy(update={"workers": places}))
        tight = SecondsCost(trial_of(problem, trial.part, trial.halo), layers)
        assert [tight.fits(worker, pairs.loads(kept)) for worker in range(3)] == [free == 0] * 3


@pytest.mark.parametrize(("kind", "order"), CASES)
def test_exchanges_are_those_of_the_schedule(kind, order):
    """A port's seconds are the schedule's where sent and received are the same and nothing else is slower."""
    trial, pairs, layers = case_of(kind, order, devices=("t4", "t4"))
    loads = pairs.loads(pairs.everything)
    even = int(loads.send_counts.max())
    counts = np.array([[0, even], [even, 0]])
    schedule = replace(trial.lowering(layers), send_counts=counts).lower()
    exchanges = [task.seconds for task in schedule.tasks if task.worker == 0 and "/exchange/" in task.key]
    moved = SecondsCost(trial, layers).communicate_s(Loads(loads.remote_edges, counts))
    assert moved.tolist() == pytest.approx([sum(exchanges)] * 2)


def test_all_costs_fall_with_the_halo():
    """Every worker's, for what it gathers and for what it sends."""
    _, pairs, layers = case_of()
    cost = SecondsCost(trial_of(problem_of()), layers)
    kept, before = pairs.everything, np.full(3, np.inf)
    for share in (0.0, 0.3, 0.6, 1.0):
        kept[: int(share * len(kept))] = False
        after = cost(pairs.loads(kept))
        assert (after <= before).all()
        before = after
    assert cost.communicate_s(pairs.loads(kept)).tolist() == [0, 0, 0]


def test_a_narrow_link_makes_a_worker_weak():
    """Of equal devices with equal parts the one that moves its rows slowly costs most."""
    trial, pairs, layers = case_of(devices=("t4",) * 3, link=(1e9, 1e9, 1e7))
    costs = SecondsCost(trial, layers)(pairs.loads(pairs.everything))
    assert costs[2] > 2 * max(costs[0], costs[1])
    assert Network(trial.problem.placement).port_s(2, 1e7) == pytest.approx(1.00001)


def test_wider_models_cost_more():
    """The feature width is in the seconds."""
    trial, pairs, layers = case_of()
    wide, loads = trial_of(problem_of(hidden=256)), pairs.loads(pairs.everything)
    assert (SecondsCost(wide, layers)(loads) > SecondsCost(trial, layers)(loads)).all()


def test_rows_that_are_kept_cost_as_often_as_they_travel():
    """With all rows kept for r epochs, exchanges cost an r-th; what is fixed travels before training, and is free."""
    trial, pairs, layers = case_of(order=AGGREGATE)
    loads = pairs.loads(pairs.everything)
    plain = SecondsCost(trial, layers)
    fixed_s = plain.communicate_s(loads) - _communicate_s(trial, layers, loads, keeps_features=True, refresh_interval=1)
    assert (fixed_s > 0).all(), "the features travel once"
    fourth = _communicate_s(trial, layers, loads, keeps_features=True, refresh_interval=4)
    np.testing.assert_allclose(fourth, (plain.communicate_s(loads) - fixed_s) / 4)
    cached = SecondsCost(trial, layers, _whole(trial, keeps_features=True, refresh_interval=4))
    assert (cached.compute_s(loads) < plain.compute_s(loads)).all(), "rows are put together for the others less often"
    half = CacheDecision(
        refresh_interval=2,
        keeps_features=False,
        num_rows=tuple((trial.halo.send_counts() // 2).sum(0).tolist()),
        fresh_counts=tuple(map(tuple, (trial.halo.send_counts() - trial.halo.send_counts() // 2).tolist())),
    )
    share = SecondsCost(trial, layers, half).communicate_s(loads)[0]
    assert share == pytest.approx(fixed_s[0] + 0.75 * (plain.communicate_s(loads) - fixed_s)[0], rel=0.02)


TIERS = {"none": (0, 0), "device": (10**6, 0), "some": (0.5, 0), "host": (0, 10**6), "both": (0.3, 0.3)}


def cache_of(trial, tier, interval):
    """Rows kept by devices and by hosts of two: none, all, or a share of the halos."""
    halos, hosts = [len(block.halo) for block in trial.halo.blocks], trial.problem.placement.host_of
    device, region = TIERS[tier]
    rooms = [int(device * rows) for rows in halos]
    shared = [int(region * sum(halos)) for _ in set(hosts)] if region else ()
    return decide_rows(trial.halo, rooms, hosts, shared, refresh_interval=interval) if tier != "none" else NO_CACHE


@pytest.mark.parametrize("interval", [1, 4])
@pytest.mark.parametrize("tier", TIERS)
@pytest.mark.parametrize(
    ("kind", "order", "overlap"),
    [("gcn", AGGREGATE, False), ("gcn", MULTIPLY, True), ("tagcn", AGGREGATE, True), ("gat", MULTIPLY, False)],
)
def test_whatever_is_kept_every_task_of_both_kinds_of_epochs_counts(kind, order, overlap, tier, interval):
    """lambda of the whole halo is what the plan's own schedules make each worker busy for, on average."""
    layers = (order, MULTIPLY)
    trial = replace(trial_of(problem_of(kind, devices=("t4", "gtx-1650") * 2, per_host=2)), overlap=overlap)
    pairs, cache = HaloPairs.of(GRAPH, trial.halo), cache_of(trial, tier, interval)
    assert cache.keeps_any == (tier != "none")
    assert (cache.region is not None) == (tier in ("host", "both"))
    loads = pairs.loads(pairs.everything)
    assert SecondsCost(trial, layers, cache).compute_s(loads) == pytest.approx(trial.busy_s(layers, cache))


@pytest.mark.parametrize("kind", ["gcn", "gat"])
def test_a_pruned_halo_keeps_what_is_left_of_its_rows(kind):
    """Where all were kept, a choice costs what its pruned partition with all its rows kept costs."""
    trial, pairs, layers = case_of(kind)
    kept = pairs.everything
    kept[::3] = False
    less = trial_of(trial.problem, trial.part, prune_halo(trial.halo, pairs.pruned(kept)))
    cost = SecondsCost(trial, layers, _whole(trial, refresh_interval=4))
    assert cost.compute_s(pairs.loads(kept)) == pytest.approx(less.busy_s(layers, _whole(less, refresh_interval=4)))


def test_rows_within_a_host_do_not_pass_its_link():
    """Behind a slow link a worker that moves rows between devices alone is not weak; one that shares the link is."""
    trial, pairs, layers = case_of(devices=("t4",) * 4, per_host=2, link=1e6)
    edges, inside = pairs.loads(pairs.everything).remote_edges, np.zeros((4, 4), np.int64)
    inside[[0, 1, 2, 3], [1, 0, 3, 2]] = 1000
    across = inside.copy()
    across[0, 2] = across[2, 0] = across[1, 3] = across[3, 1] = 1000
    cost = SecondsCost(trial, layers)
    widths = [step.in_width for step in trial.program(layers).steps if step.op == "aggregate"]
    link_s = sum(2 * (1e-5 + 2000 * width * 4 / 1e6) for width in widths)
    assert cost.communicate_s(Loads(edges, inside)).max() < 0.01 * link_s
    assert cost.communicate_s(Loads(edges, across)).tolist() == pytest.approx([link_s] * 4)


def _communicate_s(trial, layers, loads, **cache):
    return SecondsCost(trial, layers, _whole(trial, **cache)).communicate_s(loads)


def _whole(trial, **cache):
    """All halo rows kept."""
    counts = trial.halo.send_counts()
    nothing = tuple(map(tuple, np.zeros_like(counts).tolist()))
    return CacheDecision(num_rows=tuple(counts.sum(0).tolist()), fresh_counts=nothing, **cache)
