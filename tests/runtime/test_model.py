"""A worker's model over its shard equals PyG's over the whole graph, for every order of operators."""

import numpy as np
import pytest
import torch

from gnnplan.planner.adjacency import aggregation_matrix
from gnnplan.planner.graph import Graph
from gnnplan.planner.halo import build_halo
from gnnplan.planner.job import Job, ModelSpec, SbmGraph, TrainingSpec
from gnnplan.planner.shard import cut_shard
from gnnplan.planner.steps import LayerDecision, build_program
from gnnplan.profiles.kernels.activation import dropout_key, keep_mask
from gnnplan.runtime.model import WorkerModel
from gnnplan.runtime.reference import INPUT_LAYER, graph_tensors, pyg_forward

KINDS = ("gcn", "sage", "gat", "gin", "tagcn")
ORDERS = (("multiply_first", False), ("aggregate_first", False), ("aggregate_first", True))
CASES = [(kind, *order) for kind in KINDS for order in (ORDERS[:1] if kind == "gat" else ORDERS)]
N = 50


@pytest.fixture(scope="module")
def graph():
    """Directed, with self loops, repeated edges, isolated vertices and mostly zero features."""
    rng = np.random.default_rng(1)
    edges = rng.integers(0, N - 5, (2, 240))
    edges = np.concatenate([edges, edges[:, :20], np.stack([np.arange(6)] * 2)], axis=1)
    x = rng.standard_normal((N, 7)).astype(np.float32)
    x[rng.random(x.shape) < 0.5] = 0
    mask = np.ones(N, bool)
    return Graph(N, edges, x, rng.integers(0, 3, N), mask, mask, mask, 3, "test")


def model_of(graph, kind, op_order, precompute, *, sparse=False, **dropouts):
    spec = ModelSpec(kind=kind, num_layers=3, hidden_channels=8, heads=2, num_hops=2, **dropouts)
    job = Job(schema_version=1, graph=SbmGraph(source="sbm"), model=spec, training=TrainingSpec(seed=4))
    layers = tuple(LayerDecision(op_order=op_order, precompute=precompute and k == 0) for k in range(3))
    program = build_program(spec, layers, num_features=7, num_classes=3, sparse_input=sparse)
    halo = build_halo(aggregation_matrix(N, graph.edge_index, kind), np.zeros(N, np.int64), 1)
    shard = cut_shard(graph, halo, 0, sparse_features=sparse)
    return WorkerModel(job, program, shard, torch.device("cpu"))


# Sparse features are multiplied first or aggregated once, never aggregated anew each epoch.
WITH_FORMATS = [(*case, sparse) for case in CASES for sparse in (False, True) if case[1:] != ORDERS[1] or not sparse]


@pytest.mark.parametrize(("kind", "op_order", "precompute", "sparse"), WITH_FORMATS)
def test_logits_and_gradients_equal_pyg(graph, kind, op_order, precompute, sparse):
    """Logits and every parameter's gradient, against PyG with the same weights."""
    model = model_of(graph, kind, op_order, precompute, sparse=sparse)
    x, edge_index, _ = graph_tensors(graph)
    logits, expected = model.forward(epoch=0, training=True), pyg_forward(model.net, x, edge_index)
    torch.testing.assert_close(logits, expected, rtol=1e-4, atol=1e-5)
    upstream = torch.randn(expected.shape, generator=torch.Generator().manual_seed(0))
    parameters = list(model.net.parameters())
    grads = torch.autograd.grad(logits, parameters, upstream)
    for grad, wanted in zip(grads, torch.autograd.grad(expected, parameters, upstream), strict=True):
        torch.testing.assert_close(grad, wanted, rtol=1e-3, atol=1e-4)


def test_weights_cover_the_program(graph):
    """The program names every parameter of the PyG model, with its shape."""
    for kind in KINDS:
        model = model_of(graph, kind, "multiply_first", False)
        shapes = {name: tuple(value.shape) for name, value in model.net.named_parameters()}
        assert shapes == model.program.weight_shapes


@pytest.mark.parametrize("sparse", [False, True])
@pytest.mark.parametrize("kind", KINDS)
def test_dropout_is_the_reference_with_the_same_masks(graph, kind, sparse):
    """With dropout on input and layers the logits are PyG's under keep_mask, and differ by epoch."""
    model = model_of(graph, kind, "multiply_first", False, sparse=sparse, dropout=0.5, input_dropout=0.3)
    x, edge_index, _ = graph_tensors(graph)

    def drop(h, layer, width):
        probability = 0.3 if layer == INPUT_LAYER else 0.5
        mask = keep_mask(dropout_key(4, 6, layer), torch.arange(N)[:, None], torch.arange(width), width, probability)
        return h * mask / (1 - probability)

    with torch.no_grad():
        expected = pyg_forward(model.net, x, edge_index, drop)
        torch.testing.assert_close(model.forward(epoch=6, training=True), expected, rtol=1e-4, atol=1e-5)
        assert not torch.allclose(model.forward(epoch=7, training=True), expected)


def test_evaluation_drops_nothing(graph):
    """Outside training the dropout settings change nothing, twice in a row."""
    model = model_of(graph, "gcn", "multiply_first", False, dropout=0.5, input_dropout=0.3)
    x, edge_index, _ = graph_tensors(graph)
    with torch.no_grad():
        expected = pyg_forward(model.net, x, edge_index)
        for _ in range(2):
            torch.testing.assert_close(model.forward(epoch=0, training=False), expected, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize(("kind", "op_order", "precompute"), CASES)
def test_forward_leaves_its_inputs_alone(graph, kind, op_order, precompute):
    """Operators that work in place never write to the features: a second epoch sees the same numbers."""
    model = model_of(graph, kind, op_order, precompute)
    before = {name: value.clone() for name, value in model.inputs.items()}
    model.forward(epoch=0, training=True).sum().backward()
    assert all(torch.equal(model.inputs[name], value) for name, value in before.items())
