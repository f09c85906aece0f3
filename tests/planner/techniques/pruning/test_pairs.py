"""Loads of a choice of pairs are those of the halo without the others."""

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from gnnplan.planner.adjacency import aggregation_matrix
from gnnplan.planner.techniques.pruning.pairs import HaloPairs
from tests.planner.techniques.pruning.cases import cut_graphs


@settings(deadline=None)
@given(cut_graphs(), st.sampled_from(["gcn", "gat", "sage"]), st.integers(0, 99))
def test_loads_are_those_of_the_matrix_without_the_pruned_entries(cut, kind, seed):
    """Entries, and distinct columns by owner, whatever is pruned."""
    graph, part, num_workers = cut
    matrix = aggregation_matrix(graph.num_nodes, graph.edge_index, kind)
    pairs = HaloPairs.of(graph, matrix, part, num_workers)
    assert pairs.everything.all()
    kept = np.random.default_rng(seed).random(len(pairs.worker)) < 0.6
    loads = pairs.loads(kept)
    halo = set(zip(pairs.worker[kept].tolist(), pairs.vertex[kept].tolist(), strict=True))
    for worker in range(num_workers):
        columns = matrix[part == worker].indices
        left = [c for c in columns.tolist() if (worker, c) in halo]
        assert loads.remote_edges[worker] == len(left)
        counts = np.bincount(part[sorted(set(left))], minlength=num_workers)
        np.testing.assert_array_equal(loads.send_counts[:, worker], counts)
        outside = {c for c in columns.tolist() if part[c] != worker}
        assert outside == set(pairs.vertex[pairs.worker == worker].tolist())


@settings(deadline=None)
@given(cut_graphs(min_workers=2), st.integers(0, 99))
def test_loads_change_by_what_is_taken_away_and_added(cut, seed):
    """As if they were summed up anew."""
    graph, part, num_workers = cut
    matrix = aggregation_matrix(graph.num_nodes, graph.edge_index, "gcn")
    pairs, rng = HaloPairs.of(graph, matrix, part, num_workers), np.random.default_rng(seed)
    kept, worker = rng.random(len(pairs.worker)) < 0.7, int(rng.integers(num_workers))
    numbers = pairs.ranked(worker, kept)[:2]
    fewer = kept.copy()
    fewer[numbers] = False
    less = pairs.changed(pairs.loads(kept), worker, numbers, -1)
    for found, expected in ((less, pairs.loads(fewer)), (pairs.changed(less, worker, numbers, 1), pairs.loads(kept))):
        np.testing.assert_array_equal(found.remote_edges, expected.remote_edges)
        np.testing.assert_array_equal(found.send_counts, expected.send_counts)


def test_the_most_influential_are_kept_of_every_worker():
    """A share of each one's pairs, none of which ranks below one that is not."""
    worker = np.repeat(np.arange(2, dtype=np.int32), [8, 4])
    influence = np.random.default_rng(0).random(12)
    pairs = HaloPairs(2, worker, np.arange(12), 1 - worker, np.ones(12, np.int64), influence)
    kept = pairs.most_influential(0.25)
    assert np.bincount(worker[kept]).tolist() == [2, 1]
    for each in range(2):
        assert influence[kept & (worker == each)].min() > influence[~kept & (worker == each)].max()
