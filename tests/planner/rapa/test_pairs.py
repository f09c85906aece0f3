"""Loads of a choice of pairs are those of the halo without the others."""

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from gnnplan.planner.adjacency import aggregation_matrix
from gnnplan.planner.halo import build_halo, prune_halo
from gnnplan.planner.rapa.pairs import HaloPairs
from tests.planner.rapa.cases import cut_graphs


@settings(deadline=None)
@given(cut_graphs(), st.sampled_from(["gcn", "gat", "sage"]), st.integers(0, 99))
def test_loads_are_the_pruned_halos(cut, kind, seed):
    """Entries and rows sent, whatever is pruned; `pruned` names the vertices that the halo lacks then."""
    graph, part, num_workers = cut
    halo = build_halo(aggregation_matrix(graph.num_nodes, graph.edge_index, kind), part, num_workers)
    pairs = HaloPairs.of(graph, halo)
    assert pairs.everything.all()
    kept = np.random.default_rng(seed).random(len(pairs.worker)) < 0.6
    loads, left = pairs.loads(kept), prune_halo(halo, pairs.pruned(kept))
    assert loads.remote_edges.tolist() == [block.remote.nnz for block in left.blocks]
    np.testing.assert_array_equal(loads.send_counts, left.send_counts())
    for worker, block in enumerate(left.blocks):
        assert block.halo.tolist() == pairs.vertex[kept & (pairs.worker == worker)].tolist()
