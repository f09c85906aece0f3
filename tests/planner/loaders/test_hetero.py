"""A `HeteroData` becomes one graph whose edges have types."""

import numpy as np
import pytest
import torch
from torch_geometric.data import HeteroData

from gnnplan.planner.graph_spec import MemoryGraph
from gnnplan.planner.loaders.pyg import graph_of_data
from gnnplan.profiles.errors import UserError

OPTIONS = MemoryGraph(sparse_feature_density=0.0, split="file")


def bought():
    """Users with three features, items with two and labels; two ways to be joined."""
    data = HeteroData()
    data["user"].x = torch.arange(1.0, 10.0).view(3, 3)
    data["item"].x = -torch.arange(1.0, 5.0).view(2, 2)
    data["item"].y = torch.tensor([1, 0])
    data["item"].train_mask = torch.tensor([True, False])
    data["item"].val_mask, data["item"].test_mask = torch.tensor([False, True]), torch.tensor([False, False])
    data["user", "buys", "item"].edge_index = torch.tensor([[0, 1, 2], [1, 1, 0]])
    data["item", "pleases", "user"].edge_index = torch.tensor([[0], [2]])
    return data


def test_kinds_stand_one_after_the_other():
    """Vertices, their features in columns of their own, labels of one kind, and types by their order."""
    graph = graph_of_data(bought(), OPTIONS)
    assert graph.edge_index.tolist() == [[0, 1, 2, 3], [4, 4, 3, 2]]
    assert graph.edge_values["edge_type"].tolist() == [0, 0, 0, 1]
    assert graph.y.tolist() == [-1, -1, -1, 1, 0]
    x = graph.x if isinstance(graph.x, np.ndarray) else graph.x.toarray()
    assert x.shape == (5, 5)
    assert x[:3, :3].tolist() == [[1, 2, 3], [4, 5, 6], [7, 8, 9]]
    assert x[3:, 3:].tolist() == [[-1, -2], [-3, -4]]
    assert not x[:3, 3:].any()
    assert not x[3:, :3].any()
    assert (graph.train_mask.tolist(), graph.val_mask.tolist()) == ([False] * 3 + [True, False], [False] * 4 + [True])


def test_kinds_without_features_have_one_of_each_vertex():
    """Where that is asked for; and every edge may come back with another type."""
    data = bought()
    del data["user"].x
    data["user"].num_nodes = 3
    with pytest.raises(UserError, match=r"vertices 'user' have no x; set one_hot_features"):
        graph_of_data(data, OPTIONS)
    graph = graph_of_data(data, OPTIONS.model_copy(update={"one_hot_features": True, "inverse_edge_types": True}))
    assert np.array_equal(np.asarray(graph.x.todense() if hasattr(graph.x, "todense") else graph.x)[:3, :3], np.eye(3))
    assert graph.edge_index[:, 4:].tolist() == graph.edge_index[::-1, :4].tolist()
    assert graph.edge_values["edge_type"].tolist() == [0, 0, 0, 1, 2, 2, 2, 3]


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda data: data["user"].update({"y": torch.tensor([0, 1, 1])}), "'user' and 'item' have labels"),
        (lambda data: data["item"].update({"y": torch.tensor([0])}), "y of 'item' must have 2 rows"),
        (lambda data: data["item"].pop("y"), "no labels"),
        (
            lambda data: data["user", "buys", "item"].update({"edge_index": torch.tensor([[0], [2]])}),
            r"edges \('user', 'buys', 'item'\) hold a vertex outside 0..1",
        ),
        (
            lambda data: data["user", "buys", "item"].update({"edge_index": torch.tensor([0, 2])}),
            "have no edge_index",
        ),
        (
            lambda data: data["user", "buys", "item"].update({"edge_index": torch.tensor([[0.5], [1.0]])}),
            "have no edge_index, integer",
        ),
        (
            lambda data: data["item"].update({"train_mask": torch.ones(5, dtype=torch.bool)}),
            "train_mask of 'item' must",
        ),
        (lambda data: data["user"].update({"x": torch.ones(3)}), "x of 'user' must have shape"),
    ],
)
def test_what_does_not_fit_is_refused(change, words):
    """In one line that names the kind."""
    data = bought()
    change(data)
    with pytest.raises(UserError, match=words):
        graph_of_data(data, OPTIONS)


def test_nothing_is_refused():
    """A graph without edges."""
    with pytest.raises(UserError, match="no edges"):
        graph_of_data(HeteroData(), OPTIONS)


def test_label_sets_of_one_kind():
    """Vertices of other kinds have none, which is no label of another number."""
    data = bought()
    kind = next(kind for kind in data.node_types if "y" in data[kind])
    data[kind].y = torch.eye(3, dtype=torch.int64)[torch.arange(data[kind].num_nodes) % 3]
    graph = graph_of_data(data, OPTIONS)
    assert graph.is_multilabel
    assert np.isfinite(graph.y).all(1).sum() == data[kind].num_nodes


def test_numbers_are_no_targets_of_other_kinds():
    """Who has none is in no split."""
    data = bought()
    data["item"].y = torch.tensor([3, 5])
    del data["item"].train_mask, data["item"].val_mask, data["item"].test_mask
    graph = graph_of_data(data, OPTIONS.model_copy(update={"label_kind": "targets", "split": "random"}))
    assert np.isnan(graph.y[:3]).all()
    assert graph.y[3:, 0].tolist() == [3, 5]
    assert not (graph.train_mask | graph.val_mask | graph.test_mask)[:3].any()


def test_weights_of_edges_stand_one_after_the_other():
    """All types have some, or none has."""
    data = bought()
    data["user", "buys", "item"].edge_weight = torch.tensor([1.0, 2.0, 3.0])
    with pytest.raises(UserError, match="edge_weight must be numbers of one shape for all types"):
        graph_of_data(data, OPTIONS)
    data["item", "pleases", "user"].edge_weight = torch.tensor([4.0])
    assert graph_of_data(data, OPTIONS).edge_values["edge_weight"].ravel().tolist() == [1, 2, 3, 4]
