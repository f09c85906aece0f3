"""Edges sorted by target: nothing lost, order within a target kept, ids of the original list."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gnnplan.profiles.kernels.csc import csc_from_edges, in_neighbours_of, out_degrees


@settings(max_examples=60, deadline=None)
@given(st.integers(1, 8), st.data())
def test_in_neighbours_are_those_of_the_edge_list(num_vertices, data):
    """Every vertex lists its in-edges in their original order, repeated ones and loops included."""
    vertex = st.integers(0, num_vertices - 1)
    edges = data.draw(st.lists(st.tuples(vertex, vertex), max_size=30))
    edge_index = np.array(edges, np.int64).reshape(-1, 2).T
    graph = csc_from_edges(edge_index, num_vertices)
    assert graph.num_vertices == num_vertices
    ids = np.arange(len(edges)) if graph.edge_ids is None else graph.edge_ids
    for target in range(num_vertices):
        expected = [edge for edge in range(len(edges)) if edges[edge][1] == target]
        at = slice(graph.indptr[target], graph.indptr[target + 1])
        assert ids[at].tolist() == expected
        assert graph.indices[at].tolist() == [edges[edge][0] for edge in expected]


def test_sorted_edges_need_no_ids():
    """Where edges come by target, positions are edges and no array of ids is kept."""
    graph = csc_from_edges(np.array([[2, 0, 1], [0, 1, 1]]), 3)
    assert graph.edge_ids is None
    assert graph.indices.tolist() == [2, 0, 1]
    assert csc_from_edges(np.array([[2, 0, 1], [1, 0, 1]]), 3).edge_ids.tolist() == [1, 0, 2]


@pytest.mark.parametrize("dtype", [np.int32, np.int64])
def test_neighbours_are_kept_as_int32(dtype):
    """Both index types become int64 pointers and int32 neighbours."""
    graph = csc_from_edges(np.array([[1, 0], [0, 1]], dtype), 2)
    assert (graph.indptr.dtype, graph.indices.dtype) == (np.int64, np.int32)


@settings(max_examples=40, deadline=None)
@given(st.integers(1, 8), st.data())
def test_lists_of_some_vertices_lie_side_by_side(num_vertices, data):
    """Each where it is said to begin, of any vertices in ascending order; the others have no place."""
    vertex = st.integers(0, num_vertices - 1)
    edges = data.draw(st.lists(st.tuples(vertex, vertex), max_size=30))
    graph = csc_from_edges(np.array(edges, np.int64).reshape(-1, 2).T, num_vertices)
    chosen = sorted(data.draw(st.sets(vertex)))
    lists, starts = in_neighbours_of(graph, np.array(chosen, np.int64))
    assert np.flatnonzero(starts >= 0).tolist() == chosen
    for v in chosen:
        expected = graph.indices[graph.indptr[v] : graph.indptr[v + 1]]
        assert lists[starts[v] : starts[v] + len(expected)].tolist() == expected.tolist()
    assert len(lists) == sum(graph.indptr[v + 1] - graph.indptr[v] for v in chosen)
    assert out_degrees(graph).tolist() == [sum(source == v for source, _ in edges) for v in range(num_vertices)]
