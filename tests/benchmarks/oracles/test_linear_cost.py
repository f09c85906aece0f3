"""A linear cost counts edges and rows, and can stand in for any other cost at a point."""

import numpy as np
import pytest
from hypothesis import given, settings

from benchmarks.oracles.linear_cost import LinearCost, line_of_seconds
from gnnplan.planner.techniques.pruning.pairs import Loads
from gnnplan.planner.techniques.pruning.prune import cost_of
from tests.planner.techniques.pruning.cases import linear_cases
from tests.planner.techniques.pruning.problems import candidate_of

LOADS = Loads(np.array([10, 4]), np.array([[0, 3], [2, 0]]))


def test_cost_by_hand():
    """Worker 0: 1 + 10 edges of 2 + 2 rows received of 3 + 3 rows sent of 4."""
    cost = LinearCost(*np.array([[1.0, 0.0], [2.0, 1.0], [3.0, 0.0], [4.0, 0.5]]))
    assert cost(LOADS).tolist() == [1 + 20 + 6 + 12, 4 + 1]


@settings(deadline=None)
@given(linear_cases())
def test_a_linear_cost_is_its_own_line(case):
    """With nothing pruned and with half of it pruned."""
    pairs, cost = case
    whole = pairs.loads(pairs.everything)
    line = LinearCost.through(cost, whole)
    half = pairs.loads(np.arange(len(pairs.worker)) % 2 == 0)
    for loads in (whole, half):
        assert line(loads) == pytest.approx(cost(loads))


def test_a_line_meets_the_cost_where_it_was_drawn():
    """Also where the cost is a curve; each slope is the mean one down to nothing."""

    def curve(loads):
        return 1 + loads.remote_edges**2 + np.sqrt(loads.send_counts.sum(0))

    line = LinearCost.through(curve, LOADS)
    assert line(LOADS) == pytest.approx(curve(LOADS))
    assert line.per_edge == pytest.approx([10, 4])
    assert line.per_sent.tolist() == [0, 0]


def test_what_takes_edges_and_rows_together_is_counted_once():
    """A cost of their product: all of it with the edges, so that without a halo the line is the cost."""

    def product(loads):
        return 1 + loads.remote_edges * loads.send_counts.sum(0) + 2.0 * loads.send_counts.sum(1)

    line = LinearCost.through(product, LOADS)
    assert line(LOADS) == pytest.approx(product(LOADS))
    assert line.fixed.tolist() == [1, 1]
    assert line.per_edge == pytest.approx([2, 3])
    assert (line.per_received.tolist(), line.per_sent.tolist()) == ([0, 0], [2, 2])


def test_predicted_seconds_are_their_line_without_a_halo_too():
    """There gradients at halo rows are made of edges and rows."""
    cost = cost_of(candidate_of(link=(1e8, 1e8, 2e7)))
    whole, line = cost.pairs.loads(cost.pairs.everything), line_of_seconds(cost)
    assert line(whole) == pytest.approx(cost(whole))
    assert line.fixed == pytest.approx(cost(cost.pairs.loads(~cost.pairs.everything)))
    assert (line.per_edge > 0).all()
    assert (line.per_received > 0).all()
