"""lambda in seconds: what the pruned candidate's own schedules and links say, and falling with every pruned vertex."""

from dataclasses import replace

import numpy as np
import pytest

from gnnplan.planner.network import Network
from gnnplan.planner.readers.cost import exchanges_bytes
from gnnplan.planner.techniques.pruning.pairs import Loads
from gnnplan.planner.techniques.pruning.prune import cost_of
from gnnplan.planner.techniques.pruning.seconds import RESERVED_BYTES
from tests.planner.techniques.pruning.problems import AGGREGATE, MULTIPLY, ONCE, candidate_of, keeping, own_s, pruned

CASES = [
    *[(kind, MULTIPLY, False) for kind in ("gcn", "sage", "gat", "gin", "tagcn")],
    ("gcn", AGGREGATE, False),
    ("sage", AGGREGATE, True),
    ("gcn", ONCE, False),
    ("tagcn", ONCE, True),
    ("gat", MULTIPLY, True),
]
PRICED = 0.5  # of every halo: one of the shares at which programs are priced


@pytest.mark.long
@pytest.mark.parametrize(("kind", "order", "overlap"), CASES)
def test_a_choice_costs_what_its_pruned_candidate_costs(kind, order, overlap):
    """Seconds of its tasks, to rounding where programs were priced, to 2% in between; nothing counts that is gone."""
    candidate = candidate_of(kind, order, overlap=overlap)
    cost = cost_of(candidate)
    for share, rounding in ((1.0, 1e-9), (PRICED, 1e-9), (0.35, 0.02)):
        kept = cost.pairs.most_influential(share)
        less = candidate if share == 1.0 else pruned(candidate, cost, kept)
        assert cost.compute_s(cost.pairs.loads(kept)) == pytest.approx(own_s(less), rel=rounding)


@pytest.mark.long
@pytest.mark.parametrize("overlap", [False, True])
@pytest.mark.parametrize("kind", ["gcn", "sage", "gat"])
def test_sizes_are_those_of_the_pruned_candidate(kind, overlap):
    """Any pairs at all, not only those of least influence: every space and block that epochs use."""
    candidate = keeping(candidate_of(kind, overlap=overlap), 3, share=0.5)
    cost = cost_of(candidate)
    kept = np.random.default_rng(0).random(len(cost.pairs.worker)) < 0.6
    less, sized = pruned(candidate, cost, kept).cycle, cost.sizes.without(received=~kept, sent=~kept)
    unread = {less.blocks[name].edges for name in less.blocks.keys() - less.arrays.matrices.keys()}
    for name in less.spaces.keys() - unread:
        assert sized.spaces[name].sizes == less.spaces[name].sizes, name
    for name in less.arrays.matrices:
        assert sized.blocks[name].num_edges == less.blocks[name].num_edges, name
    assert less.arrays.matrices
    assert sized.spaces != candidate.cycle.spaces


@pytest.mark.parametrize("memory", ["free", "missing"])
def test_memory_is_the_pruned_candidates(memory):
    """Half a halo fits where its peak leaves `RESERVED_BYTES` free; with a byte less it does not."""
    candidate = candidate_of(hidden=512)
    cost = cost_of(candidate)
    half = cost.pairs.most_influential(PRICED)
    loads, less = cost.pairs.loads(half), pruned(candidate, cost, half)
    free = 0 if memory == "free" else -1
    held = [estimate.peak_bytes + RESERVED_BYTES + free for estimate in less.memory]
    place = candidate.setting.placement
    places = tuple(w.model_copy(update={"memory_bytes": b}) for w, b in zip(place.workers, held, strict=True))
    setting = replace(candidate.setting, placement=place.model_copy(update={"workers": places}))
    tight = cost_of(replace(candidate, setting=setting))
    assert [tight.fits(worker, loads) for worker in range(3)] == [memory == "free"] * 3
    assert not tight.fits(0, cost.pairs.loads(cost.pairs.everything))


@pytest.mark.parametrize(("kind", "order"), [case[:2] for case in CASES if not case[2]])
def test_exchanges_are_those_of_the_schedule(kind, order):
    """A port's seconds are the schedule's where sent and received are the same and nothing else is slower."""
    candidate = candidate_of(kind, order, devices=("t4", "t4"))
    cost = cost_of(candidate)
    even = {key: (b + b.T) / 2 for key, b in exchanges_bytes(candidate.cycle, "train").items()}
    network = Network(candidate.setting.placement)
    expected = sum(network.all_to_all(num_bytes).seconds for num_bytes in even.values())
    assert even
    assert cost.communicate_s(cost.pairs.loads(cost.pairs.everything)).tolist() == pytest.approx([expected] * 2)


def test_all_costs_fall_with_the_halo():
    """Every worker's, for what it gathers and for what it sends."""
    cost = cost_of(candidate_of())
    before = np.full(3, np.inf)
    for share in (1.0, 0.7, 0.4, 0.0):
        loads = cost.pairs.loads(cost.pairs.most_influential(share))
        after = cost(loads)
        assert (after <= before).all()
        before = after
    assert cost.communicate_s(loads).tolist() == [0, 0, 0]


def test_a_narrow_link_makes_a_worker_weak():
    """Of equal devices with equal parts the one that moves its rows slowly costs most."""
    cost = cost_of(candidate_of(devices=("t4",) * 3, link=(1e9, 1e9, 1e7)))
    costs = cost(cost.pairs.loads(cost.pairs.everything))
    assert costs[2] > 2 * max(costs[0], costs[1])


def test_wider_models_cost_more():
    """The feature width is in the seconds."""
    narrow, wide = (cost_of(candidate_of(hidden=hidden)) for hidden in (32, 256))
    loads = narrow.pairs.loads(narrow.pairs.everything)
    assert (wide(loads) > narrow(loads)).all()


@pytest.mark.long
@pytest.mark.parametrize("share", [1.0, 0.4])
@pytest.mark.parametrize("kind", ["gcn", "gat"])
def test_rows_that_are_kept_cost_as_often_as_they_travel(kind, share):
    """Both kinds of epochs count as often as they come, and a smaller halo keeps the same share of its rows."""
    candidate = candidate_of(kind)
    stale = keeping(candidate, 4, share)
    plain, cost = cost_of(candidate), cost_of(stale)
    whole = cost.pairs.loads(cost.pairs.everything)
    assert cost.compute_s(whole) == pytest.approx(own_s(stale))
    if share == 1.0:
        assert cost.communicate_s(whole) == pytest.approx(plain.communicate_s(whole) / 4)
        assert (cost.compute_s(whole) < plain.compute_s(whole)).all(), "rows are put together for the others less often"
    assert (cost.communicate_s(whole) < plain.communicate_s(whole)).all()
    kept = cost.pairs.most_influential(PRICED)
    assert cost.compute_s(cost.pairs.loads(kept)) == pytest.approx(own_s(pruned(stale, cost, kept)))


def test_rows_within_a_host_do_not_pass_its_link():
    """Behind a slow link a worker that moves rows between devices alone is not weak; one that shares the link is."""
    cost = cost_of(candidate_of(devices=("t4",) * 4, per_host=2, link=1e6))
    whole = cost.pairs.loads(cost.pairs.everything)
    inside = np.zeros((4, 4), np.int64)
    inside[[0, 1, 2, 3], [1, 0, 3, 2]] = 1000
    across = inside.copy()
    across[0, 2] = across[2, 0] = across[1, 3] = across[3, 1] = 1000
    near, far = (cost.communicate_s(Loads(whole.remote_edges, counts)) for counts in (inside, across))
    assert near.max() < 0.01 * far.min()
    assert far.tolist() == pytest.approx([far[0]] * 4)
