"""The blocks of any partition are the whole matrix, and what is sent is what is awaited."""

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st

from benchmarks.oracles.halo import build_halo
from gnnplan.planner.adjacency import aggregation_matrix


@st.composite
def cuts(draw):
    """(matrix, part, W): a random graph's matrix with a random, perhaps empty, part for each worker."""
    n = draw(st.integers(1, 15))
    pairs = draw(st.lists(st.tuples(*[st.integers(0, n - 1)] * 2), max_size=50))
    kind = draw(st.sampled_from(["gcn", "sage", "gin", "tagcn", "gat"]))
    matrix = aggregation_matrix(n, np.array(pairs, np.int64).reshape(-1, 2).T, kind)
    num_workers = draw(st.integers(1, 5))
    part = draw(st.lists(st.integers(0, num_workers - 1), min_size=n, max_size=n))
    return matrix, np.array(part, np.int32), num_workers


def entries(matrix, rows, columns):
    """Sorted (row, column, value) of a block in global ids."""
    local = np.repeat(np.arange(matrix.shape[0]), np.diff(matrix.indptr))
    return list(zip(rows[local].tolist(), columns[matrix.indices].tolist(), matrix.data.tolist()))


@pytest.mark.long
@settings(deadline=None)
@given(cuts())
def test_blocks_reassemble_to_the_whole_matrix(cut):
    """Every entry, repeated ones included, lies in exactly one block."""
    matrix, part, num_workers = cut
    found = []
    for block in build_halo(matrix, part, num_workers).blocks:
        found += entries(block.local, block.vertices, block.vertices)
        found += entries(block.remote, block.vertices, block.halo)
    everything = np.arange(len(part))
    assert sorted(found) == sorted(entries(matrix, everything, everything))


@settings(deadline=None)
@given(cuts())
def test_every_vertex_has_one_owner(cut):
    """Local rows are the owner's vertices in ascending order, with blocks of matching shape."""
    matrix, part, num_workers = cut
    halo = build_halo(matrix, part, num_workers)
    assert halo.num_workers == num_workers
    for worker, block in enumerate(halo.blocks):
        np.testing.assert_array_equal(block.vertices, np.flatnonzero(part == worker))
        assert block.local.shape == (len(block.vertices), len(block.vertices))
        assert block.remote.shape == (len(block.vertices), len(block.halo))


@settings(deadline=None)
@given(cuts())
def test_halo_is_exactly_what_the_rows_gather_from_others(cut):
    """No row is missing, none is received for nothing; grouped by owner, ascending within."""
    matrix, part, num_workers = cut
    for worker, block in enumerate(build_halo(matrix, part, num_workers).blocks):
        needed = set(matrix[block.vertices].indices.tolist()) - set(block.vertices.tolist())
        assert set(block.halo.tolist()) == needed
        np.testing.assert_array_equal(block.halo_owner, part[block.halo])
        keys = list(zip(block.halo_owner.tolist(), block.halo.tolist()))
        assert keys == sorted(set(keys))
        assert worker not in block.halo_owner


@settings(deadline=None)
@given(cuts())
def test_sent_rows_arrive_in_the_receivers_halo_order(cut):
    """Concatenating what all senders send gives the receiver's halo, row for row."""
    matrix, part, num_workers = cut
    halo = build_halo(matrix, part, num_workers)
    for receiver, block in enumerate(halo.blocks):
        arriving = [halo.blocks[sender].vertices[halo.send[sender][receiver]] for sender in range(num_workers)]
        np.testing.assert_array_equal(np.concatenate(arriving), block.halo)


@settings(deadline=None)
@given(cuts())
def test_send_counts_balance(cut):
    """Columns sum to the halos, nobody sends to itself."""
    matrix, part, num_workers = cut
    halo = build_halo(matrix, part, num_workers)
    counts = halo.send_counts()
    assert counts.shape == (num_workers, num_workers)
    assert counts.sum(0).tolist() == [len(block.halo) for block in halo.blocks]
    assert not counts.diagonal().any()


@settings(deadline=None)
@given(cuts(), st.integers(0, 99))
def test_distributed_product_equals_the_whole_product(cut, seed):
    """Local and remote products after one exchange are the rows of A X."""
    matrix, part, num_workers = cut
    x = np.random.default_rng(seed).integers(-4, 5, (len(part), 2)).astype(np.float64)
    whole = matrix.astype(np.float64) @ x
    for block in build_halo(matrix, part, num_workers).blocks:
        rows = block.local.astype(np.float64) @ x[block.vertices] + block.remote.astype(np.float64) @ x[block.halo]
        np.testing.assert_allclose(rows, whole[block.vertices], atol=1e-12)


def test_one_worker_needs_nobody():
    """A single part holds everything and has an empty halo."""
    matrix = sp.csr_matrix(np.ones((3, 3), np.float32))
    (block,) = build_halo(matrix, np.zeros(3, np.int32), 1).blocks
    assert block.remote.shape == (3, 0)
    assert (block.local != matrix).nnz == 0
