"""A shard written is the shard read, shards together are the graph, and a damaged one is a user error."""

import zipfile
from dataclasses import fields, replace

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st

from gnnplan.planner.adjacency import aggregation_matrix
from gnnplan.planner.graph import Graph
from gnnplan.planner.halo import build_halo
from gnnplan.planner.shard import Shard, cut_shard
from gnnplan.profiles.errors import UserError


def random_graph(n, seed, *, multilabel=False):
    """A random graph with every kind of mask."""
    rng = np.random.default_rng(seed)
    x = (rng.random((n, 4)) * (rng.random((n, 4)) < 0.4)).astype(np.float32)
    y = rng.integers(0, 2, (n, 3)).astype(np.float32) if multilabel else rng.integers(0, 3, n)
    masks = [rng.random(n) < 0.5 for _ in range(3)]
    return Graph(n, rng.integers(0, n, (2, 3 * n)), x, y, *masks, num_classes=3, name="random")


def shards_of(graph, part, num_workers, *, sparse_features=False, kind="gcn"):
    """Every worker's shard, and the halo they were cut along."""
    halo = build_halo(aggregation_matrix(graph.num_nodes, graph.edge_index, kind), part, num_workers)
    return [cut_shard(graph, halo, rank, sparse_features=sparse_features) for rank in range(num_workers)], halo


def assert_equal(shard, other):
    """Every field has the same values and types."""
    for field in fields(Shard):
        ours, theirs = getattr(shard, field.name), getattr(other, field.name)
        assert sp.issparse(ours) == sp.issparse(theirs), field.name
        if sp.issparse(ours):
            assert ours.shape == theirs.shape
            for name in ("data", "indices", "indptr"):
                np.testing.assert_array_equal(getattr(ours, name), getattr(theirs, name))
        else:
            assert np.asarray(ours).dtype == np.asarray(theirs).dtype, field.name
            np.testing.assert_array_equal(ours, theirs)


@pytest.mark.parametrize("sparse", [False, True])
@pytest.mark.parametrize("multilabel", [False, True])
@settings(max_examples=15, deadline=None)
@given(st.integers(1, 12), st.integers(1, 4), st.integers(0, 999))
def test_save_and_load_round_trip(sparse, multilabel, tmp_path_factory, n, num_workers, seed):
    """Dense or sparse, empty parts included: what is read equals what was written."""
    graph = random_graph(n, seed, multilabel=multilabel)
    part = np.random.default_rng(seed).integers(0, num_workers, n)
    shards, _ = shards_of(graph, part, num_workers, sparse_features=sparse)
    path = tmp_path_factory.mktemp("shards") / "worker.npz"
    for shard in shards:
        shard.save(path)
        assert_equal(Shard.load(path), shard)


@settings(max_examples=40, deadline=None)
@given(st.integers(1, 15), st.integers(1, 4), st.integers(0, 999), st.booleans())
def test_shards_together_are_the_graph(n, num_workers, seed, sparse):
    """Features, labels and masks are split without loss; the loss divisor is the whole graph's."""
    graph = random_graph(n, seed)
    part = np.random.default_rng(seed).integers(0, num_workers, n)
    shards, _ = shards_of(graph, part, num_workers, sparse_features=sparse)
    order = np.argsort(np.concatenate([shard.vertices for shard in shards]))
    for key in ("y", "train_mask", "val_mask", "test_mask"):
        joined = np.concatenate([getattr(shard, key) for shard in shards])[order]
        np.testing.assert_array_equal(joined, getattr(graph, key))
    x = sp.vstack([sp.csr_matrix(shard.x) for shard in shards]).toarray()[order]
    np.testing.assert_array_equal(x, graph.x)
    assert {shard.num_train for shard in shards} == {int(graph.train_mask.sum())}


@pytest.mark.parametrize("stored_sparse", [False, True])
@pytest.mark.parametrize("wanted_sparse", [False, True])
def test_features_take_the_decided_format(stored_sparse, wanted_sparse):
    """The plan decides, not the way the graph happens to hold them."""
    graph = random_graph(9, 1)
    held = replace(graph, x=sp.csr_matrix(graph.x)) if stored_sparse else graph
    (shard,), _ = shards_of(held, np.zeros(9, int), 1, sparse_features=wanted_sparse)
    assert sp.issparse(shard.x) == wanted_sparse
    assert shard.x.dtype == np.float32
    np.testing.assert_array_equal(shard.x.toarray() if wanted_sparse else shard.x, graph.x)


@settings(max_examples=40, deadline=None)
@given(st.integers(1, 15), st.integers(1, 4), st.integers(0, 999))
def test_send_rows_fit_the_counts(n, num_workers, seed):
    """Rows to send are concatenated over receivers, and what is received fills the remote columns."""
    part = np.random.default_rng(seed).integers(0, num_workers, n)
    shards, halo = shards_of(random_graph(n, seed), part, num_workers)
    for rank, shard in enumerate(shards):
        assert len(shard.send_rows) == shard.send_counts.sum()
        assert shard.recv_counts.sum() == shard.remote.shape[1]
        pieces = np.split(shard.send_rows, np.cumsum(shard.send_counts)[:-1])
        for receiver, rows in enumerate(pieces):
            np.testing.assert_array_equal(rows, halo.send[rank][receiver])
            assert shards[receiver].recv_counts[rank] == len(rows)


@pytest.fixture
def saved(tmp_path):
    """The file of one worker's shard."""
    shards, _ = shards_of(random_graph(20, 3), np.arange(20) % 2, 2, sparse_features=True)
    path = tmp_path / "worker_0.npz"
    shards[0].save(path)
    return path


def without(path, member):
    """Rewrites the archive without one of its arrays."""
    with np.load(path) as file:
        arrays = {key: file[key] for key in file.files if key != member}
    np.savez(path, **arrays)


def flip(path, name):
    """Damages eight bytes of a stored array."""
    with zipfile.ZipFile(path) as archive:
        info = archive.getinfo(f"{name}.npy")
    data = bytearray(path.read_bytes())
    at = info.header_offset + info.compress_size  # behind the entry's own header, short of its end
    data[at : at + 8] = bytes(byte ^ 0xFF for byte in data[at : at + 8])
    path.write_bytes(data)


DAMAGE = {
    "missing": lambda path: path.unlink(),
    "empty": lambda path: path.write_bytes(b""),
    "cut short": lambda path: path.write_bytes(path.read_bytes()[:-100]),
    "half": lambda path: path.write_bytes(path.read_bytes()[: path.stat().st_size // 2]),
    "text": lambda path: path.write_text("hello"),
    "one array": lambda path: path.write_bytes(npy_bytes(path)),
    "a scalar is missing": lambda path: without(path, "num_train"),
    "an array is missing": lambda path: without(path, "vertices"),
    "a CSR part is missing": lambda path: without(path, "local.indices"),
    "flipped bytes": lambda path: flip(path, "vertices"),
    "pickled": lambda path: np.savez(path, rank=np.array([{}], dtype=object)),
    "another zip": lambda path: zipfile.ZipFile(path, "w").close(),
}


def npy_bytes(path):
    """A bare `.npy` in place of the archive."""
    np.save(path.with_suffix(".npy"), np.arange(3))
    return path.with_suffix(".npy").read_bytes()


@pytest.mark.parametrize("damage", DAMAGE)
def test_damaged_shard_is_a_user_error(damage, saved):
    """Whatever is wrong with the file, one line names it."""
    DAMAGE[damage](saved)
    with pytest.raises(UserError) as caught:
        Shard.load(saved)
    assert str(caught.value).startswith(f"{saved}: ")
    assert "\n" not in str(caught.value)


def test_failed_write_leaves_no_file(tmp_path):
    """A shard is there whole or not at all."""
    shards, _ = shards_of(random_graph(6, 0), np.zeros(6, int), 1)
    (tmp_path / "file").write_text("")
    with pytest.raises(UserError, match="cannot be written"):
        shards[0].save(tmp_path / "file" / "worker_0.npz")
    assert [path.name for path in tmp_path.iterdir()] == ["file"]
