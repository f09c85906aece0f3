"""The PyG reference: equal weights for equal seeds, PyG's own forward, torch's own losses."""

import numpy as np
import pytest
import torch
import torch.nn.functional as F

from gnnplan.planner.graph import Graph
from gnnplan.planner.model_spec import ModelSpec
from gnnplan.planner.models.pyg_models import build_pyg_model
from gnnplan.planner.training_spec import TrainingSpec
from gnnplan.runtime.reference import INPUT_LAYER, build_optimizer, graph_tensors, loss_of, pyg_forward, train_reference

KINDS = ("gcn", "sage", "gat", "gin", "tagcn")


def small_graph(multilabel=False):
    rng = np.random.default_rng(0)
    n = 40
    y = (rng.random((n, 3)) < 0.4).astype(np.float32) if multilabel else rng.integers(0, 3, n)
    train = np.arange(n) % 2 == 0
    x = rng.standard_normal((n, 6)).astype(np.float32)
    return Graph(n, rng.integers(0, n, (2, 160)), x, y, train, ~train, ~train, 3, "small").validate()


@pytest.mark.parametrize("kind", KINDS)
def test_equal_seeds_give_equal_weights(kind):
    """Weights depend on the seed alone, and drawing them leaves torch's global generator where it was."""
    spec = ModelSpec(kind=kind, hidden_channels=8, heads=2)
    torch.manual_seed(5)
    expected_next = torch.rand(1)
    torch.manual_seed(5)
    first = build_pyg_model(spec, 6, 3, seed=1).state_dict()
    assert torch.rand(1) == expected_next
    second, other = (build_pyg_model(spec, 6, 3, seed=seed).state_dict() for seed in (1, 2))
    assert all(torch.equal(first[key], second[key]) for key in first)
    assert any(not torch.equal(first[key], other[key]) for key in first)


@pytest.mark.parametrize("kind", KINDS)
def test_forward_is_pygs_own(kind):
    """Without dropout, pyg_forward equals calling the PyG model."""
    x, edge_index, _ = graph_tensors(small_graph())
    net = build_pyg_model(ModelSpec(kind=kind, num_layers=3, hidden_channels=8, heads=2), 6, 3, seed=1)
    torch.testing.assert_close(pyg_forward(net, x, edge_index), net(x, edge_index))


def test_dropout_is_asked_for_the_input_and_between_layers():
    """The drop function sees the input as INPUT_LAYER and each hidden layer, but not the logits."""
    seen = []

    def drop(h, layer, width):
        seen.append((layer, width, tuple(h.shape)))
        return h

    x, edge_index, _ = graph_tensors(small_graph())
    pyg_forward(build_pyg_model(ModelSpec(num_layers=3, hidden_channels=8), 6, 3, seed=1), x, edge_index, drop)
    assert seen == [(INPUT_LAYER, 6, (40, 6)), (0, 8, (40, 8)), (1, 8, (40, 8))]


def test_loss_is_over_the_mask_only():
    """Cross-entropy for class ids, binary cross-entropy for label sets, each over the masked rows."""
    logits = torch.randn(10, 3, generator=torch.Generator().manual_seed(0))
    mask = torch.arange(10) < 4
    y = torch.arange(10) % 3
    labels = (torch.arange(30).view(10, 3) % 2).float()
    torch.testing.assert_close(loss_of(logits, y, mask), F.cross_entropy(logits[:4], y[:4]))
    torch.testing.assert_close(
        loss_of(logits, labels, mask), F.binary_cross_entropy_with_logits(logits[:4], labels[:4])
    )


@pytest.mark.parametrize(("name", "kind"), [("adam", torch.optim.Adam), ("sgd", torch.optim.SGD)])
def test_optimizer_has_the_jobs_settings(name, kind):
    """Kind, learning rate and weight decay are the job's."""
    training = TrainingSpec(optimizer=name, learning_rate=0.25, weight_decay=0.125)
    optimizer = build_optimizer([torch.nn.Parameter(torch.zeros(1))], training)
    assert type(optimizer) is kind
    assert (optimizer.defaults["lr"], optimizer.defaults["weight_decay"]) == (0.25, 0.125)


@pytest.mark.parametrize("multilabel", [False, True])
def test_training_lowers_the_loss(multilabel):
    """Twenty epochs give twenty losses, the last below the first; `epochs` overrides the spec."""
    graph, spec = small_graph(multilabel), ModelSpec(hidden_channels=16)
    _, losses = train_reference(graph, spec, TrainingSpec(epochs=20))
    assert len(losses) == 20
    assert losses[-1] < losses[0]
    assert train_reference(graph, spec, TrainingSpec(epochs=20), epochs=2)[1] == losses[:2]


@pytest.mark.parametrize("optimizer", ["sgd", "adam"])
def test_steps_leave_gradients_as_they_are(optimizer):
    """Under partial reduce they may still be on their way to other workers."""
    parameter = torch.nn.Parameter(torch.linspace(-1, 1, 70_000))
    parameter.grad = torch.linspace(2, 3, 70_000)
    training = TrainingSpec(optimizer=optimizer, weight_decay=0.1)
    build_optimizer([parameter], training, fused=True).step()
    assert torch.equal(parameter.grad, torch.linspace(2, 3, 70_000))
