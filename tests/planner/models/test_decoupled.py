"""Decoupled models, which propagate rows without a product between, are PyG's own under rows and under slices."""

from collections import Counter

import pytest
import torch
from torch_geometric import nn as pyg

from gnnplan.planner.batch_spec import MiniBatchSpec
from gnnplan.planner.graph_spec import SbmGraph
from gnnplan.planner.job import Job
from gnnplan.planner.model_spec import ModelSpec
from gnnplan.planner.models.pyg_models import build_pyg_model
from gnnplan.planner.program.cycle import EVALUATE
from gnnplan.runtime.reference import dense_features, pyg_forward
from tests.planner.program.cases import NUM_CLASSES, NUM_FEATURES, SEED, Case, small_graph
from tests.planner.techniques.feature_slices.sliced import sliced

FROM_PYG = 1e-5
MODELS = {
    "appnp": ModelSpec(kind="appnp", num_layers=2, hidden_channels=6, num_hops=5, dropout=0.3),
    "appnp, one layer": ModelSpec(kind="appnp", num_layers=1, num_hops=3, alpha=0.5, input_dropout=0.2),
    "appnp without alpha": ModelSpec(kind="appnp", num_layers=3, hidden_channels=6, num_hops=3, alpha=0),
    "decoupled gat": ModelSpec(kind="decoupled_gat", num_layers=2, hidden_channels=6, heads=2, num_hops=4, dropout=0.3),
    "decoupled gat, one head": ModelSpec(kind="decoupled_gat", num_layers=1, heads=1, num_hops=3, alpha=0),
    "sgc": ModelSpec(kind="sgc", num_layers=1, num_hops=4),
    "sgc, two layers": ModelSpec(kind="sgc", num_layers=2, hidden_channels=6, num_hops=2, dropout=0.3),
}


@pytest.mark.parametrize("num_workers", [1, 2, 3, 4])
@pytest.mark.parametrize("name", MODELS)
def test_trains_as_pyg_does(name, num_workers):
    """Losses and parameters, under both layouts; slices are uneven."""
    case = Case(MODELS[name], num_workers, passes=("split", "storage", "overlap"))
    assert case.play().off_pyg() < FROM_PYG
    assert case.play(sliced(case)).off_pyg() < FROM_PYG


@pytest.mark.parametrize("order", ["multiply_first", "aggregate_first"])
def test_sgc_may_propagate_first(order):
    """Then the features are propagated once, and nothing is left to send but gradients' sums."""
    case = Case(MODELS["sgc"], 3, (order,))
    cycle = sliced(case, "first_aggregation")
    assert case.play(cycle).off_pyg() < FROM_PYG
    kinds = Counter(op.kind for op in cycle.programs["train"])
    assert kinds["transpose"] == (0 if order == "aggregate_first" else 4)


@pytest.mark.parametrize("depth", [2, 5, 10])
@pytest.mark.parametrize("num_layers", [1, 2, 3])
def test_appnp_has_four_all_to_alls(num_layers, depth):
    """However many Linears and propagations, the loss's rows are the only others that are turned."""
    model = ModelSpec(kind="appnp", num_layers=num_layers, hidden_channels=6, num_hops=depth)
    cycle = sliced(Case(model, 3))
    assert Counter(op.kind for op in cycle.programs["train"])["transpose"] == 4
    assert Counter(op.kind for op in cycle.programs[EVALUATE])["transpose"] == 2


def test_appnp_is_pyg_s_propagation_behind_pyg_s_linears():
    """The reference is made of PyG's parts, and its `forward` is what everything else is held against."""
    model, graph = MODELS["appnp"], small_graph()
    net = build_pyg_model(model, NUM_FEATURES, NUM_CLASSES, SEED).eval()
    x, edge_index = torch.from_numpy(dense_features(graph)), torch.from_numpy(graph.edge_index).long()
    with torch.no_grad():
        rows = net.convs[1].lin(net.convs[0].lin(x).relu())
        want = pyg.APPNP(K=5, alpha=0.1)(rows, edge_index)
        assert torch.equal(pyg_forward(net, x, edge_index), want)
        assert torch.equal(net(x, edge_index), want)


def test_decoupled_attention_is_pyg_s():
    """One propagation of it is a `GATConv` of the perceptron's rows, whose own product is the last Linear."""
    model = ModelSpec(kind="decoupled_gat", num_layers=1, heads=2, num_hops=1, alpha=0)
    net, graph = build_pyg_model(model, NUM_FEATURES, NUM_CLASSES, SEED), small_graph()
    conv = pyg.GATConv(NUM_FEATURES, NUM_CLASSES, heads=2, concat=False, bias=False)
    x, edge_index = torch.from_numpy(dense_features(graph)), torch.from_numpy(graph.edge_index).long()
    with torch.no_grad():
        net.convs[0].lin.bias.zero_()
        conv.lin.weight.copy_(net.convs[0].lin.weight)
        conv.att_src.copy_(net.convs[0].prop.att_src)
        conv.att_dst.copy_(net.convs[0].prop.att_dst)
        torch.testing.assert_close(net(x, edge_index), conv(x, edge_index))


@pytest.mark.parametrize("depth", [2, 5, 10])
def test_decoupled_attention_has_four_all_to_alls_of_rows(depth):
    """And four of two numbers a vertex and head; attention is computed once, and so is its gradient."""
    model = ModelSpec(kind="decoupled_gat", num_layers=2, hidden_channels=6, heads=2, num_hops=depth)
    kinds = Counter(op.kind for op in sliced(Case(model, 3)).programs["train"])
    assert (kinds["transpose"], kinds["exchange"], kinds["weigh"]) == (4, 4, 2 * depth)
    assert (kinds["score"], kinds["softmax"], kinds["softmax_grad"], kinds["score_grad"]) == (1, 1, 1, 1)


def test_what_a_decoupled_model_cannot_be():
    """Deeper than a program may be, or of mini-batches whose hops are the model's layers."""
    with pytest.raises(ValueError, match="aggregate more than"):
        ModelSpec(kind="sgc", num_layers=100, num_hops=3)
    with pytest.raises(ValueError, match="mini-batches of appnp"):
        Job(graph=SbmGraph(source="sbm"), model=MODELS["appnp"], mini_batch=MiniBatchSpec(fan_outs=(5, 5)))
