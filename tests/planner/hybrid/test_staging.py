"""What a worker is given is enough for every split it may take, and is read back as it was written."""

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st

from gnnplan.planner.hybrid.dependencies import find_dependencies
from gnnplan.planner.hybrid.matrices import cut_level
from gnnplan.planner.hybrid.split import make_split
from gnnplan.planner.hybrid.staging import Staged, dependency_mask, dependency_triples
from gnnplan.profiles.errors import UserError
from tests.planner.hybrid.shares import AFTER, CASES, ONCE, Shares

EVERY = [(kind, layers, False) for kind, layers in CASES] + [
    ("gcn", (AFTER, AFTER), True),
    ("sage", (ONCE, AFTER), True),
]


@pytest.mark.parametrize(("kind", "layers", "sparse"), EVERY)
def test_any_split_of_what_is_staged_has_its_rows(kind, layers, sparse):
    """The same vertices at every level, the same matrices, the right inputs, as from the whole neighbourhood."""
    shares = Shares(kind, layers, sparse=sparse)
    may_cache, cached = shares.masks(0.4), shares.masks(0.5, seed=1)
    for rank, block in enumerate(shares.halo.blocks):
        mask = cached[rank] & may_cache[rank]
        staged = shares.staged(rank, mask, may_cache[rank])
        whole, ours = make_split(shares.nears[rank], shares.levels.first, mask), staged.split(mask)
        for level in range(shares.levels.first, shares.levels.count):
            np.testing.assert_array_equal(
                staged.vertices[ours.replicas(level)], shares.nears[rank].vertices[whole.replicas(level)]
            )
            cuts = (
                cut_level(block.remote, rows, split, level)
                for rows, split in ((staged.rows, ours), (shares.rows[rank], whole))
            )
            for mine, theirs in zip(*(vars(cut).values() for cut in cuts)):
                np.testing.assert_array_equal(mine.toarray(), theirs.toarray())
        assert set(ours.replicas(shares.levels.first)) <= set(staged.input_places.tolist())
        np.testing.assert_allclose(dense(staged.inputs), inputs(shares, staged), rtol=1e-5, atol=1e-6)


def dense(rows):
    return rows.toarray() if sp.issparse(rows) else rows


def inputs(shares, staged):
    """Every precomputed hop of the staged vertices' features, from dense products of the whole graph."""
    hops, rows = [shares.graph.x.astype(np.float64)], shares.matrix.toarray().astype(np.float64)
    for _ in range(shares.program.num_hops_precomputed):
        hops.append(rows @ hops[-1])
    names = shares.program.precomputed or ("x0",)
    return np.hstack([hops[int(name[1:])] for name in names])[staged.vertices[staged.input_places]]


@pytest.mark.parametrize("adjusts", [False, True])
def test_save_and_load_round_trip(adjusts, tmp_path):
    """Every array, and for online decisions the charges of what may be cached."""
    shares = Shares("sage", (ONCE, AFTER))
    mask = shares.masks(0.5)[0]
    staged = shares.staged(0, mask, np.ones_like(mask), adjusts=adjusts)
    staged.save(tmp_path / "staged.npz")
    read = Staged.load(tmp_path / "staged.npz")
    for name, value in vars(staged).items():
        np.testing.assert_array_equal(dense(getattr(read, name)), dense(value), err_msg=name)
    assert len(read.row_width) == (mask.size if adjusts else 0)


def test_online_it_knows_what_the_dependencies_cost():
    """Those that may be cached, in their order, as for the whole neighbourhood."""
    shares = Shares("gcn", (AFTER, AFTER, AFTER))
    may_cache = shares.masks(0.5)[1]
    ours = shares.staged(1, may_cache & False, may_cache, adjusts=True).dependencies
    whole, chosen = find_dependencies(shares.nears[1], shares.levels), np.flatnonzero(may_cache.ravel())
    for name in ("level", "owner", "row_width"):
        np.testing.assert_array_equal(getattr(ours, name), getattr(whole, name)[chosen])
    for charge in ("alone", "shared"):
        for name, values in vars(getattr(ours, charge)).items():
            np.testing.assert_array_equal(values, getattr(getattr(whole, charge), name)[chosen])


def test_what_is_not_staged_cannot_be_cached():
    """Nor is it silently left out."""
    shares = Shares("gcn", (AFTER, AFTER))
    nothing = shares.masks(0.0)[0]
    with pytest.raises(AssertionError, match="not staged"):
        shares.staged(0, nothing).split(~nothing)


def test_a_damaged_file_is_a_user_error(tmp_path):
    """In one line, by its name."""
    path = tmp_path / "staged_0.npz"
    path.write_bytes(b"no archive")
    with pytest.raises(UserError, match=r"staged_0\.npz: not a worker's staged rows"):
        Staged.load(path)


@settings(max_examples=30, deadline=None)
@given(st.floats(0, 1), st.integers(0, 99))
def test_triples_are_the_masks(share, seed):
    """(worker, level, vertex) and back, whatever is chosen."""
    shares = Shares("gcn", (ONCE, AFTER, AFTER))
    masks = shares.masks(share, seed)
    triples = dependency_triples(masks, shares.halo, shares.levels.first)
    assert triples.dtype == np.int32
    assert triples.shape == (3, sum(int(mask.sum()) for mask in masks))
    for rank, block in enumerate(shares.halo.blocks):
        np.testing.assert_array_equal(dependency_mask(triples, rank, block, shares.levels), masks[rank])
