"""The matrices of every level are the aggregation matrix's rows and columns, none left out, none twice."""

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from gnnplan.planner.hybrid.matrices import cut_edges, cut_level, expands, neighbourhood_rows
from gnnplan.planner.hybrid.split import make_split
from tests.planner.hybrid.test_split import KINDS, draw_mask
from tests.planner.hybrid.workers import workers


def cut(data, kinds=KINDS):
    """(worker, its neighbourhood's rows, a split of it)."""
    worker = data.draw(workers(kinds=kinds))
    rows = neighbourhood_rows(worker.matrix, worker.block, worker.near)
    return worker, rows, make_split(worker.near, worker.levels.first, draw_mask(data.draw, worker))


def expected(worker, split, level, columns):
    """Dense rows of own vertices and the next level's replicas over these vertices."""
    above = worker.near.vertices[split.replicas(level + 1)]
    return worker.matrix.toarray()[np.concatenate([worker.block.vertices, above])][:, columns]


@settings(max_examples=150, deadline=None)
@given(st.data())
def test_parts_of_a_level_are_the_matrix(data):
    """Own rows over own rows, over replicas and over fetched rows; the replicas' rows likewise."""
    worker, rows, split = cut(data)
    n = len(worker.block.vertices)
    for level in range(split.first, worker.levels.count):
        parts = cut_level(worker.block.remote, rows, split, level)
        here, fetched = (worker.near.vertices[places] for places in (split.replicas(level), split.fetched(level)))
        found = np.zeros((parts.far.shape[0], n + len(here) + len(fetched)), np.float32)
        found[:n, :n] = worker.block.local.toarray()
        found[:n, n : n + len(here)] = parts.near.toarray()
        found[n:, : n + len(here)] = parts.made.toarray()
        found[:, n + len(here) :] = parts.far.toarray()
        columns = np.concatenate([worker.block.vertices, here, fetched])
        np.testing.assert_array_equal(found, expected(worker, split, level, columns))


@settings(max_examples=100, deadline=None)
@given(st.data())
def test_edges_of_an_attention_have_their_targets_first(data):
    """Every edge is there as often as in the matrix; a target's own row has its own number."""
    worker, rows, split = cut(data, kinds=("gat",))
    n = len(worker.block.vertices)
    for level in range(split.first, worker.levels.count):
        edges = cut_edges(worker.block.local, worker.block.remote, rows, split, level)
        sources = np.empty(edges.edges.shape[1], np.int64)
        sources[:n] = worker.block.vertices
        sources[edges.here] = worker.near.vertices[split.replicas(level)]
        sources[edges.fetched] = worker.near.vertices[split.fetched(level)]
        assert sorted([*range(n), *edges.here, *edges.fetched]) == list(range(len(sources)))
        np.testing.assert_array_equal(edges.edges.toarray(), expected(worker, split, level, sources))
        above = worker.near.vertices[split.replicas(level + 1)]
        assert sources[n : n + len(above)].tolist() == above.tolist()


@settings(max_examples=60, deadline=None)
@given(workers(kinds=KINDS))
def test_rows_of_the_last_hop_are_left_out(worker):
    """Only what may be a replica above the first level is gathered for."""
    rows = neighbourhood_rows(worker.matrix, worker.block, worker.near)
    everything = np.ones((worker.levels.count - worker.levels.first, worker.near.num_halo), bool)
    split = make_split(worker.near, worker.levels.first, everything)
    np.testing.assert_array_equal(expands(worker.near), split.is_replica[1:].any(0))
    assert not np.diff(rows.indptr)[~expands(worker.near)].any()
