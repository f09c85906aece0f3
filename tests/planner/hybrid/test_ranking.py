"""The order that makes what pays a prefix, and how far T_v and T_e may move before it must be made again."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gnnplan.planner.hybrid.dependencies import Charge, Dependencies, Rates
from gnnplan.planner.hybrid.ranking import rank

NUM_OWNERS = 3
ROW_WIDTHS = np.array([16.0, 4.0, 1.0, 0.0])  # of each level
NO_LIMIT = math.inf
NOTHING = np.empty(0)
NONE = Dependencies(NOTHING, NOTHING.astype(np.int32), NOTHING, *[Charge(NOTHING, NOTHING, NOTHING)] * 2)


@st.composite
def dependency_lists(draw, max_size=30):
    """Unrelated dependencies that share nothing, with charges over several decades."""
    size = draw(st.integers(0, max_size))

    def column(values):
        return np.array(draw(st.lists(values, min_size=size, max_size=size)), np.float64)

    charge = Charge(
        vertex_work=column(st.integers(0, 50)),
        edge_work=column(st.integers(0, 50)),
        num_bytes=column(st.integers(1, 40) | st.integers(1, 1000)),
    )
    owner, level = (column(st.integers(0, highest)).astype(np.int32) for highest in (NUM_OWNERS - 1, 3))
    return Dependencies(level, owner, ROW_WIDTHS[level], charge, charge)


def rates(vertex_s=1.0, edge_s=1.0, row_s=(100.0,) * NUM_OWNERS):
    return Rates(vertex_s=vertex_s, edge_s=edge_s, row_s=row_s)


POSITIVE = st.floats(0.01, 10)
ANY_RATES = st.builds(rates, POSITIVE, POSITIVE, st.tuples(*[st.floats(0, 1000)] * NUM_OWNERS))


@settings(max_examples=100, deadline=None)
@given(dependency_lists(), ANY_RATES, st.booleans(), st.integers(0, 10_000))
def test_groups_hold_each_dependency_once_by_cost(dependencies, at, by_size, budget_bytes):
    """Except those without a row and those too large; one owner a group, the cheapest per float first."""
    ranking = rank(dependencies, dependencies.alone, at, budget_bytes, by_size=by_size)
    fitting = (dependencies.row_width > 0) & (dependencies.alone.num_bytes <= budget_bytes)
    assert sorted(ranking.order.tolist()) == np.flatnonzero(fitting).tolist()
    cost_s = dependencies.alone.seconds(at)
    for group, (start, end) in enumerate(zip(ranking.starts[:-1], ranking.starts[1:])):
        members = ranking.order[start:end]
        assert len(members)
        assert (dependencies.owner[members] == ranking.owner[group]).all()
        assert (np.diff(cost_s[members] / dependencies.row_width[members]) >= 0).all()
        sizes = dependencies.alone.num_bytes[members]
        assert (sizes.min(), sizes.max()) == (ranking.least_bytes[group], ranking.most_bytes[group])
        if by_size:
            assert sizes.max() < sizes.min() * 2**0.25 * (1 + 1e-12)
            assert len(set(dependencies.level[members].tolist())) == 1
            assert dependencies.row_width[members[0]] == ranking.row_width[group]


@settings(max_examples=100, deadline=None)
@given(dependency_lists(), ANY_RATES, ANY_RATES, st.data())
def test_sums_of_prefixes_are_those_of_their_members(dependencies, sorted_at, now, data):
    """Seconds saved and bytes, at rates other than those of sorting too."""
    ranking = rank(dependencies, dependencies.alone, sorted_at, NO_LIMIT)
    sizes = np.diff(ranking.starts).tolist()
    counts = np.array([data.draw(st.integers(0, size)) for size in sizes], np.int64)
    members = ranking.chosen(counts)
    benefit_s = dependencies.communicated_s(now) - dependencies.alone.seconds(now)
    assert len(members) == counts.sum()
    assert ranking.saved_s(now, counts) == pytest.approx(benefit_s[members].sum(), rel=1e-9, abs=1e-6)
    assert ranking.num_bytes(counts) == dependencies.alone.num_bytes[members].sum()


@pytest.mark.parametrize(
    ("then", "now", "expected"),
    [
        ((1, 1), (3, 3), 0.0),
        ((1, 1), (3, 6), 1.0),
        ((1, 1), (6, 3), 1.0),
        ((1, 0), (2, 0), 0.0),
        ((1, 0), (1, 1), math.inf),
        ((0, 0), (1, 1), math.inf),
        ((1, 1), (0, 1), math.inf),
        ((1, 1), (0, 0), 0.0),
        ((0, 0), (0, 0), 0.0),
    ],
)
def test_drift_is_how_far_the_two_costs_moved_apart(then, now, expected):
    """In proportion is none at all; one that appears or vanishes is infinitely far."""
    ranking = rank(NONE, NONE.alone, rates(*then), NO_LIMIT)
    assert ranking.drift(rates(*now, row_s=(7.0,) * NUM_OWNERS)) == pytest.approx(expected)
