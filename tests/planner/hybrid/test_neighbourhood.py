"""The neighbourhood of a halo, against sets of vertices in plain Python."""

import numpy as np
import pytest
from hypothesis import given, settings

from gnnplan.planner.hybrid.neighbourhood import count_hops, sum_over_hops
from tests.planner.hybrid.workers import workers


def distances(worker, root):
    """{vertex: hops from `root`} through vertices beyond the halo, by global id."""
    at_hand = {*worker.block.vertices.tolist(), *worker.block.halo.tolist()}
    found, frontier = {root: 0}, [root]
    for hop in range(1, worker.near.num_hops + 1):
        gathered = {v for u in frontier for v in worker.matrix[[u]].indices.tolist()}
        frontier = sorted(gathered - at_hand - set(found))
        found |= dict.fromkeys(frontier, hop)
    return found


@settings(max_examples=60, deadline=None)
@given(workers())
def test_it_holds_what_the_halo_gathers_and_nothing_else(worker):
    """All vertices within reach, once, the halo first."""
    near, halo = worker.near, worker.block.halo.tolist()
    assert near.vertices[: near.num_halo].tolist() == halo
    beyond = near.vertices[near.num_halo :].tolist()
    assert len(set(beyond)) == len(beyond)
    assert set(beyond) == {v for u in halo for v in distances(worker, u)} - set(halo)
    np.testing.assert_array_equal(near.num_entries, np.diff(worker.matrix.indptr)[near.vertices])


@settings(max_examples=60, deadline=None)
@given(workers())
def test_hops_count_distinct_vertices_and_their_entries(worker):
    """Each vertex at its least distance; and from its side, the halo vertices at each distance."""
    near = worker.near
    counts = count_hops(near)
    number = {vertex: place for place, vertex in enumerate(near.vertices.tolist())}
    reached_from = np.zeros_like(counts.num_reached_from)
    for place, root in enumerate(worker.block.halo.tolist()):
        found = distances(worker, root)
        for hop in range(near.num_hops + 1):
            at_hop = [number[v] for v, distance in found.items() if distance == hop]
            assert counts.num_vertices[place, hop] == len(at_hop)
            assert counts.num_edges[place, hop] == near.num_entries[at_hop].sum()
            reached_from[at_hop, hop] += 1
    np.testing.assert_array_equal(counts.num_reached_from, reached_from)


@settings(max_examples=40, deadline=None)
@given(workers())
def test_sums_take_each_vertex_at_its_hop(worker):
    """One entry of the table for every vertex found."""
    near = worker.near
    table = np.random.default_rng(0).random((len(near.vertices), near.num_hops + 1, 2))
    number = {vertex: place for place, vertex in enumerate(near.vertices.tolist())}
    total = sum_over_hops(near, table)
    for place, root in enumerate(worker.block.halo.tolist()):
        expected = sum(table[number[vertex], hop] for vertex, hop in distances(worker, root).items())
        assert total[place] == pytest.approx(expected)
