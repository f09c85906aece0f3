"""PyG sources: saved dicts, data set classes offline, and what is refused."""

import socket

import numpy as np
import pytest
import scipy.sparse as sp
import torch
from torch_geometric import datasets
from torch_geometric.data import Data

from gnnplan.planner.graph_spec import PygGraph
from gnnplan.planner.loaders import load_graph
from gnnplan.profiles.errors import UserError


@pytest.fixture(autouse=True)
def no_network(monkeypatch):
    def refuse(*_args, **_kwargs):
        raise AssertionError("the loader reached for the network")

    monkeypatch.setattr(socket.socket, "connect", refuse)


def tiny(**changes):
    values = {
        "edge_index": torch.tensor([[0, 1, 2], [1, 2, 3]]),
        "x": torch.arange(8, dtype=torch.float32).reshape(4, 2),
        "y": torch.tensor([0, 1, 0, 1]),
        "train_mask": torch.tensor([True, True, False, False]),
        "test_mask": torch.tensor([False, False, True, True]),
        **changes,
    }
    return {key: value for key, value in values.items() if value is not None}


def save(folder, content):
    path = folder / "tiny.pt"
    torch.save(content, path)
    return PygGraph(source="pyg", root=path)


def refused(spec, message):
    with pytest.raises(UserError, match=message) as caught:
        load_graph(spec)
    assert str(caught.value).startswith(str(spec.root))
    assert "\n" not in str(caught.value)


def test_a_saved_dict(tmp_path):
    graph = load_graph(save(tmp_path, Data(**tiny()).to_dict()))
    assert graph.edge_index.tolist() == [[0, 1, 2], [1, 2, 3]]
    assert (graph.num_nodes, graph.num_classes, graph.name) == (4, 2, "tiny")
    assert graph.train_mask.tolist() == [True, True, False, False]
    assert not graph.val_mask.any()


@pytest.mark.filterwarnings("ignore:Sparse CSR tensor support")
def test_sparse_half_and_multi_label_tensors_and_splits_as_columns(tmp_path):
    x = torch.eye(4)
    dense = load_graph(save(tmp_path, tiny(x=x)))
    for sparse in (x.to_sparse_coo(), x.to_sparse_csr(), x.half()):
        assert load_graph(save(tmp_path, tiny(x=sparse))).fingerprint == dense.fingerprint
    many = tiny(y=torch.tensor([[0, 1, 1]] * 4), train_mask=torch.eye(4, dtype=torch.bool)[:, :3])
    graph = load_graph(save(tmp_path, many).model_copy(update={"split_index": 2}))
    assert graph.is_multilabel
    assert np.flatnonzero(graph.train_mask).tolist() == [2]


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (tiny(edge_index=None), "no edge_index tensor"),
        (tiny(x=None, y=None), "no num_nodes"),
        (tiny(x=[1, 2]), "x must be a tensor, found list"),
        (tiny(num_nodes="4"), "num_nodes must be one integer"),
        (tiny(edge_index=torch.tensor([[0], [4]])), "vertex 4, outside 0..3"),
        (tiny(x=torch.full((4, 2), float("nan"))), "NaN"),
        (torch.zeros(3), "a dict is needed, found Tensor"),
    ],
)
def test_malformed_dicts_are_one_line(tmp_path, content, message):
    refused(save(tmp_path, content), message)


def test_a_pickle_of_anything_else_is_refused(tmp_path):
    refused(save(tmp_path, {"edge_index": sp.eye(3)}), "tensors only")
    path = tmp_path / "tiny.pt"
    for junk, message in (
        (b"", "empty"),
        (b"junk", "tensors only"),
        (path.read_bytes()[:200], "tensors only"),
    ):
        path.write_bytes(junk)
        refused(PygGraph(source="pyg", root=path), message)
    path.unlink()
    refused(PygGraph(source="pyg", root=path), "no such file")


def write_amazon(root):
    """Raw files of PyG's `Amazon('Photo')`, as it would have downloaded them."""
    rng = np.random.default_rng(0)
    x = sp.random(20, 6, 0.3, "csr", random_state=rng)
    adjacency = sp.random(20, 20, 0.2, "csr", random_state=rng)
    raw = root / "Photo" / "raw"
    raw.mkdir(parents=True)
    arrays = {"labels": np.arange(20) % 4}
    for prefix, matrix in (("attr", x), ("adj", adjacency)):
        for part in ("data", "indices", "indptr", "shape"):
            arrays[f"{prefix}_{part}"] = np.asarray(getattr(matrix, part))
    np.savez(raw / "amazon_electronics_photo.npz", **arrays)


def amazon(root, name="Photo"):
    return PygGraph(source="pyg", root=root, dataset="Amazon", dataset_name=name)


def test_a_data_set_class_from_raw_files_then_from_processed_files(tmp_path):
    write_amazon(tmp_path)
    first = load_graph(amazon(tmp_path))
    assert (first.num_nodes, first.num_features, first.num_classes, first.name) == (20, 6, 4, "Photo")
    (tmp_path / "Photo" / "raw" / "amazon_electronics_photo.npz").unlink()
    assert load_graph(amazon(tmp_path)).fingerprint == first.fingerprint


def test_missing_raw_files_are_named_and_not_downloaded(tmp_path):
    refused(amazon(tmp_path), "amazon_electronics_photo.npz: no such file; gnnplan downloads nothing")
    refused(amazon(tmp_path / "nowhere"), "no such folder")


def test_processed_files_that_hold_more_than_tensors_are_refused(tmp_path):
    (tmp_path / "Photo" / "processed").mkdir(parents=True)
    torch.save((Thing(), None), tmp_path / "Photo" / "processed" / "data.pt")
    refused(amazon(tmp_path), "the PyG dataset Amazon Photo")


class Thing:
    """Something only a pickle can hold."""


def test_wrong_classes_and_names(tmp_path):
    unknown = PygGraph(source="pyg", root=tmp_path, dataset="Nonesuch")
    refused(unknown, "no class 'Nonesuch' in torch_geometric.datasets")
    refused(PygGraph(source="pyg", root=tmp_path), "no class ''")
    refused(amazon(tmp_path, name=""), "needs a dataset_name")
    refused(amazon(tmp_path, name="Shoes"), "Amazon Shoes")


class Several(datasets.FakeDataset):
    """Three random graphs."""

    def __init__(self):
        super().__init__(num_graphs=3, avg_num_nodes=5)


def test_several_and_heterogeneous_graphs_are_refused(tmp_path, monkeypatch):
    monkeypatch.setattr(datasets, "Several", Several, raising=False)
    refused(PygGraph(source="pyg", root=tmp_path, dataset="Several"), "holds 3 graph")
    refused(PygGraph(source="pyg", root=tmp_path, dataset="FakeHeteroDataset"), "type HeteroData")


def test_a_class_that_needs_no_files(tmp_path):
    graph = load_graph(PygGraph(source="pyg", root=tmp_path, dataset="KarateClub"))
    assert (graph.num_nodes, graph.num_edges, graph.num_classes) == (34, 156, 4)


def test_weights_of_edges_that_cannot_be_read_are_refused(tmp_path):
    """A model that takes some trains without them where it is given none."""
    refused(save(tmp_path, tiny(edge_weight=torch.eye(3).to_sparse())), "edge_weight must be a dense tensor")
