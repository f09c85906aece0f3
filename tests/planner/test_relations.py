"""Matrices by the type of edges."""

import numpy as np
import scipy.sparse as sp

from gnnplan.planner.adjacency import aggregation_matrix
from gnnplan.planner.relations import any_matrix, combined, is_relation, relation

EDGES = np.array([[0, 1, 1, 2, 3, 0], [1, 0, 0, 0, 1, 1]], np.int32)
TYPES = {"edge_type": np.array([0, 1, 1, 1, 2, 0])}


def test_each_type_has_the_mean_and_the_sum_of_its_own_edges():
    """A repeated edge counts twice; a type without edges has no entries."""
    mean, total = (any_matrix(4, EDGES, relation(over, 1), TYPES) for over in ("mean", "sum"))
    assert total.toarray().tolist() == [[0, 2, 1, 0], [0] * 4, [0] * 4, [0] * 4]
    np.testing.assert_allclose(mean.toarray()[0], [0, 2 / 3, 1 / 3, 0])
    assert any_matrix(4, EDGES, relation("mean", 7), TYPES).nnz == 0


def test_all_types_together_are_all_edges():
    """Sums add up to that over all of them; other aggregations are what they were."""
    whole = any_matrix(4, EDGES, "sum", TYPES)
    parts = {relation("sum", number): any_matrix(4, EDGES, relation("sum", number), TYPES) for number in range(3)}
    assert (combined(parts) != whole).nnz == 0
    assert (any_matrix(4, EDGES, "gcn", TYPES) != aggregation_matrix(4, EDGES, "gcn")).nnz == 0
    assert all(map(is_relation, parts))
    assert not is_relation("sum")


def test_of_several_aggregations_the_largest_counts():
    """None of none."""
    small, large = sp.identity(3, format="csr"), sp.csr_matrix(np.ones((3, 3)))
    assert combined({"gcn": small, "sage": large}) is large
    assert combined({}) is None
