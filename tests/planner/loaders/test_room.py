"""Files and generators that would make more than memory holds are refused before they make it."""

import gzip
import os
import zipfile

import numpy as np
import pytest
import torch

from gnnplan.planner.graph_spec import EdgeListGraph, NpzGraph, PygGraph, SbmGraph
from gnnplan.planner.loaders import load_graph, read
from gnnplan.profiles import memory
from gnnplan.profiles.errors import UserError

FREE = 10 * 2**20


@pytest.fixture
def little_room(monkeypatch):
    """Ten MiB are free."""
    monkeypatch.setattr(memory, "available_bytes", lambda: FREE)
    monkeypatch.setattr(read, "_CHECK_BYTES", 2**20)


@pytest.mark.usefixtures("little_room")
def test_archives_and_tables_that_unpack_to_more(tmp_path):
    """Zeros are a thousandth of their size in a file."""
    with zipfile.ZipFile(tmp_path / "big.npz", "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("edge_index.npy", bytes(2 * FREE))
    with gzip.open(tmp_path / "big.txt.gz", "wb") as sink:
        sink.write(b"0 1\n" * (FREE // 4))
    edges = EdgeListGraph(source="edge_list", path=tmp_path / "big.txt.gz", synthetic_feature_width=2)
    for spec in (NpzGraph(source="npz", path=tmp_path / "big.npz"), edges):
        with pytest.raises(UserError, match="are free"):
            load_graph(spec)


@pytest.mark.usefixtures("little_room")
def test_a_vertex_of_a_high_number_makes_no_graph_of_as_many(tmp_path):
    """Its features would have a row for every number below."""
    (tmp_path / "edges.txt").write_text(f"0 {2**31 - 2}\n")
    spec = EdgeListGraph(source="edge_list", path=tmp_path / "edges.txt", synthetic_feature_width=2)
    with pytest.raises(UserError, match=r"a graph of 2,147,483,647 vertices would take"):
        load_graph(spec)


@pytest.mark.usefixtures("little_room")
def test_a_generator_is_priced():
    """By its features, and by its edges."""
    for asked in ({"num_features": 10**6}, {"average_degree": 1e6}):
        with pytest.raises(UserError, match=r"sbm: .* would take"):
            load_graph(SbmGraph(source="sbm", num_nodes=2000, **asked))


@pytest.mark.parametrize(
    "made",
    [
        lambda: torch.zeros(1).expand(2**45),
        lambda: torch.quantize_per_tensor(torch.zeros(3, 2), 0.1, 0, torch.qint8),
        lambda: torch.nested.nested_tensor([torch.zeros(2), torch.zeros(3)]),
        lambda: torch.zeros(3, 2, device="meta"),
        lambda: torch.sparse_coo_tensor([[0], [0], [0]], [1.0], (2, 2, 2)),
    ],
)
def test_tensors_that_are_no_plain_ones(tmp_path, made):
    """In one line that names the file."""
    torch.save({"edge_index": torch.zeros(2, 1, dtype=torch.int64), "x": made()}, tmp_path / "graph.pt")
    with pytest.raises(UserError, match=r"graph\.pt") as caught:
        load_graph(PygGraph(source="pyg", root=tmp_path / "graph.pt"))
    assert "\n" not in str(caught.value)


def test_pipes_and_devices_are_not_read(tmp_path):
    """They have no end in sight."""
    os.mkfifo(tmp_path / "pipe.npz")
    (tmp_path / "zero.npz").symlink_to("/dev/zero")
    for name in ("pipe.npz", "zero.npz"):
        with pytest.raises(UserError, match="a device or a pipe"):
            load_graph(NpzGraph(source="npz", path=tmp_path / name))


def test_what_fits_is_read(tmp_path):
    """As it was."""
    x, y = np.ones((4, 2), np.float32), np.array([0, 1, 0, 1])
    np.savez(tmp_path / "graph.npz", edge_index=np.array([[0, 1], [1, 2]]), x=x, y=y)
    assert load_graph(NpzGraph(source="npz", path=tmp_path / "graph.npz")).num_nodes == 4
