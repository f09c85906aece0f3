"""Overlap ratios, and rows sent that sender and receiver mean alike."""

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from gnnplan.planner.adjacency import aggregation_matrix
from gnnplan.planner.halo import build_halo
from gnnplan.planner.joint_cache.overlap import as_sent, fresh_counts, overlap_ratio


@st.composite
def halos(draw):
    """The halo of a random graph over up to four workers."""
    n, num_workers = draw(st.integers(1, 25)), draw(st.integers(1, 4))
    rng = np.random.default_rng(draw(st.integers(0, 999)))
    matrix = aggregation_matrix(n, rng.integers(0, n, (2, 3 * n)), "gcn")
    return build_halo(matrix, rng.integers(0, num_workers, n), num_workers)


@settings(deadline=None)
@given(halos())
def test_ratio_counts_the_halos_a_vertex_is_in(halo):
    """Equation 2, counted one by one."""
    ratio = overlap_ratio(halo)
    assert len(ratio) == sum(len(block.vertices) for block in halo.blocks)
    for vertex, count in enumerate(ratio):
        assert count == sum(vertex in block.halo for block in halo.blocks)


@settings(deadline=None)
@given(halos(), st.integers(0, 999))
def test_sender_and_receiver_mean_the_same_rows(halo, seed):
    """Fresh vertices in the order of the sender are those of the receiver, and as many as are counted."""
    rng = np.random.default_rng(seed)
    kept = [rng.random(len(block.halo)) < 0.5 for block in halo.blocks]
    counts = fresh_counts(halo, kept)
    for p in range(halo.num_workers):
        receiver = np.repeat(np.arange(halo.num_workers), [len(rows) for rows in halo.send[p]])
        fresh = ~as_sent(halo, kept, p)
        sent = halo.blocks[p].vertices[np.concatenate(halo.send[p])]
        for q, block in enumerate(halo.blocks):
            expected = block.halo[~kept[q] & (block.halo_owner == p)]
            np.testing.assert_array_equal(sent[fresh & (receiver == q)], expected)
            assert counts[p, q] == len(expected)
