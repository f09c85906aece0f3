"""Edge keys: a lossless encoding, merged and mirrored."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from gnnplan.planner.edges import distinct, edge_keys, edges_from_keys, symmetric_keys

EDGES = st.integers(1, 40).flatmap(
    lambda n: st.tuples(st.just(n), st.lists(st.tuples(st.integers(0, n - 1), st.integers(0, n - 1)), max_size=60))
)


@given(EDGES)
def test_decoding_the_keys_gives_the_edges_back(drawn):
    n, pairs = drawn
    edge_index = np.array(pairs, np.int32).reshape(-1, 2).T
    np.testing.assert_array_equal(edges_from_keys(n, edge_keys(n, *edge_index)), edge_index)


@given(EDGES)
def test_distinct_and_symmetric_are_what_python_sets_say(drawn):
    n, pairs = drawn
    edge_index = np.array(pairs, np.int32).reshape(-1, 2).T
    assert [tuple(e) for e in edges_from_keys(n, distinct(edge_keys(n, *edge_index))).T] == sorted(set(pairs))
    both = {*pairs, *((v, u) for u, v in pairs)}
    for drop in (False, True):
        found = edges_from_keys(n, symmetric_keys(n, edge_index, drop_self_loops=drop))
        assert [tuple(e) for e in found.T] == sorted(e for e in both if not drop or e[0] != e[1])


def test_keys_of_the_largest_graph_do_not_overflow():
    n = 2**31 - 1
    edge_index = np.array([[n - 1, 0], [n - 2, n - 1]], np.int32)
    np.testing.assert_array_equal(edges_from_keys(n, edge_keys(n, *edge_index)), edge_index)
