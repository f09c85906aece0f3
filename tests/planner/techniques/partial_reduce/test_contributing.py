"""Contributing vertices: those with a gradient, layer by layer, whoever owns them."""

import numpy as np
import pytest
import torch

from gnnplan.planner.adjacency import aggregation_matrix
from gnnplan.planner.model_spec import ModelSpec
from gnnplan.planner.models.pyg_models import build_pyg_model
from gnnplan.planner.partial.decision import PartialReduceDecision
from gnnplan.planner.techniques.partial_reduce.contributing import contributing_vertices

N = 60


@pytest.fixture(scope="module")
def graph():
    """Sparse and directed, with few training vertices, so that layers differ."""
    rng = np.random.default_rng(5)
    return rng.integers(0, N, (2, 70)), rng.random(N) < 0.1, rng.integers(0, 3, N)


@pytest.mark.parametrize("kind", ["gcn", "sage", "gat", "gin", "tagcn", "sgc", "appnp", "decoupled_gat"])
def test_they_are_the_vertices_whose_output_has_a_gradient(graph, kind):
    """Counted by autograd on PyG's own layers in one process, split by owner."""
    edges, train, part = graph
    model = ModelSpec(kind=kind, num_layers=3, hidden_channels=8, heads=2, num_hops=2)
    matrix = aggregation_matrix(N, edges, kind)
    counts = contributing_vertices(matrix, [np.flatnonzero(part == worker) for worker in range(3)], train, model)
    net = build_pyg_model(model, 4, 2, seed=0).double()
    outputs = []
    h = torch.rand(N, 4, dtype=torch.float64)
    for layer, conv in enumerate(net.convs):
        h = conv(h, torch.from_numpy(edges))
        h.retain_grad()
        outputs.append(h)
        if layer < 2:
            h = torch.nn.functional.softplus(h)  # no unit is off, as ReLU's would be
    (h[torch.from_numpy(train)] * torch.rand(int(train.sum()), 2, dtype=torch.float64)).sum().backward()
    for layer, output in enumerate(outputs):
        reached = output.grad.abs().sum(1).numpy() > 0
        assert counts[layer].tolist() == [int(reached[part == worker].sum()) for worker in range(3)]
    assert counts[0].sum() > counts[2].sum()


def decision_of(counts):
    return PartialReduceDecision(min_group=2, contributing=tuple(map(tuple, counts)))


def test_group_weights_sum_to_one_and_all_together_are_the_full_gradient():
    """Equation 14: sum over the group of n_k / n_S; the engine's sums of gradients are scaled by n / n_S."""
    counts = [[4, 6, 10], [1, 0, 3], [0, 0, 5]]
    decision = decision_of(counts)
    assert decision.scales((0, 1, 2)) == [1.0, 1.0, 1.0]
    for members in ((0, 1), (1, 2), (0, 2), (2,)):
        for row, scale in zip(counts, decision.scales(members), strict=True):
            weights = [scale * row[member] / sum(row) for member in members]
            assert sum(weights) == pytest.approx(1.0 if any(row[member] for member in members) else 0.0)


def test_a_group_estimates_the_mean_gradient_without_bias():
    """Where every vertex has the same gradient, any group's scaled sum is the full one."""
    counts, gradient = [[4, 6, 10]], 0.25
    full = gradient * sum(counts[0])
    for members in ((0, 1), (1, 2), (0, 2), (0, 1, 2)):
        (scale,) = decision_of(counts).scales(members)
        assert scale * gradient * sum(counts[0][member] for member in members) == pytest.approx(full)


def test_without_a_vertex_there_is_no_gradient():
    """A group that has none of a layer's vertices does not divide by zero."""
    assert decision_of([[0, 0, 5]]).scales((0, 1)) == [0.0]


def test_a_decision_says_whether_it_is_stale():
    """K = 0 is exact."""
    assert decision_of([[1, 1]]).is_stale
    assert not decision_of([[1, 1]]).model_copy(update={"max_staleness": 0}).is_stale
