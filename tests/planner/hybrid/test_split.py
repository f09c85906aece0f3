"""A split holds what the closure of its cached dependencies holds, level by level, and costs what that costs."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gnnplan.planner.hybrid.closure import Held, build_closure
from gnnplan.planner.hybrid.split import make_split, work_of
from tests.planner.hybrid.workers import NUM_WORKERS, RATES, workers

KINDS = ("gcn", "sage", "gin", "gat", "tagcn")


def draw_mask(draw, worker):
    """bool [levels, h]."""
    shape = (worker.levels.count - worker.levels.first, worker.near.num_halo)
    size = shape[0] * shape[1]
    return np.array(draw(st.lists(st.booleans(), min_size=size, max_size=size)), bool).reshape(shape)


@settings(max_examples=150, deadline=None)
@given(st.data(), RATES)
def test_it_is_the_closure_of_what_is_cached(data, rates):
    """The same replicas at every level, the same bytes, the same seconds saved."""
    worker = data.draw(workers(kinds=KINDS))
    mask = draw_mask(data.draw, worker)
    split = make_split(worker.near, worker.levels.first, mask)
    held = Held.of(build_closure(worker.near, worker.levels, worker.dependencies, rates), np.flatnonzero(mask.ravel()))
    num_levels, num_beyond = len(mask), worker.near.num_beyond
    np.testing.assert_array_equal(split.cached, mask)
    beyond = held.is_held[mask.size :].reshape(max(0, num_levels - 1), num_beyond)
    np.testing.assert_array_equal(split.is_replica[: num_levels - 1, worker.near.num_halo :], beyond)
    assert not split.is_replica[num_levels - 1 :, worker.near.num_halo :].any()
    work = work_of(split, worker.near, worker.levels, NUM_WORKERS)
    assert work.num_bytes == held.num_bytes
    assert work.saved_s(rates) == pytest.approx(held.saved_s, rel=1e-9, abs=1e-12)


@settings(max_examples=50, deadline=None)
@given(st.data(), RATES)
def test_what_two_splits_add_to_each_other_is_what_one_saves_more(data, rates):
    """Neither is below nothing, and a split adds nothing to itself."""
    worker = data.draw(workers(kinds=KINDS))
    splits = [make_split(worker.near, worker.levels.first, draw_mask(data.draw, worker)) for _ in range(2)]
    first, second = (work_of(split, worker.near, worker.levels, NUM_WORKERS) for split in splits)
    added_s = first.added_s(second, rates), second.added_s(first, rates)
    assert min(added_s) >= first.added_s(first, rates) == 0
    more_s = second.saved_s(rates) - first.saved_s(rates)
    assert added_s[0] - added_s[1] == pytest.approx(more_s, rel=1e-9, abs=1e-9)


@settings(max_examples=50, deadline=None)
@given(st.data())
def test_every_halo_row_is_made_or_fetched(data):
    """At every level one of both, and above the last level nothing is made."""
    worker = data.draw(workers(kinds=KINDS))
    split = make_split(worker.near, worker.levels.first, draw_mask(data.draw, worker))
    for level in range(worker.levels.first, worker.levels.count):
        made = split.replicas(level)
        both = np.concatenate([made[made < worker.near.num_halo], split.fetched(level)])
        assert sorted(both.tolist()) == list(range(worker.near.num_halo))
    assert not len(split.replicas(worker.levels.count))
