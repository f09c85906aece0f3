"""A GCN on a small graph shared out, by programs and by dense autograd that may change what comes from others."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional

from gnnplan.planner.adjacency import aggregation_matrix
from gnnplan.planner.contracts.technique import Choice
from gnnplan.planner.model_spec import ModelSpec
from gnnplan.planner.techniques.registry import technique
from gnnplan.planner.training_spec import TrainingSpec
from gnnplan.runtime.reference import dense_features
from tests.planner.composition.chosen import composed
from tests.planner.program.cases import SEED, Case, initial, worst

RATE, STEPS = 0.2, 7
MODEL = ModelSpec(kind="gcn", num_layers=3, hidden_channels=6)
CASE = Case(MODEL, 3, training=TrainingSpec(optimizer="sgd", learning_rate=RATE, epochs=STEPS, seed=SEED))
Gather = Callable[[Tensor, int, int], tuple[Tensor, Tensor]]
"""(z, layer, step) -> the layer's sums, and what is added to the loss for gradients that come another way."""


def chosen(name: str, arrays: dict | None = None, **decision) -> Choice:
    return Choice(name, technique(name).Decision(**decision), arrays or {})


def cycle_with(case: Case, *choices: Choice):
    part = {"part": case.part.astype(np.int32)}
    return composed(case, [chosen("halo_exchange", part), chosen("operator_order"), *choices])


def dense() -> Tensor:
    """A [N, N] in float64."""
    graph = CASE.graph
    return torch.from_numpy(aggregation_matrix(graph.num_nodes, graph.edge_index, "gcn").toarray()).double()


def crossing() -> Tensor:
    """Bool [N, N]: edges from a vertex that another worker owns."""
    part = torch.from_numpy(CASE.part)
    return part[:, None] != part[None, :]


def train(gather: Gather) -> tuple[list[float], dict[str, Tensor]]:
    """Losses and trained parameters."""
    graph, params = CASE.graph, {n: v.double().clone().requires_grad_() for n, v in initial(MODEL).items()}
    mask, y, losses = torch.from_numpy(graph.train_mask), torch.from_numpy(graph.y), []
    for step in range(STEPS):
        h, more = torch.from_numpy(dense_features(graph)).double(), torch.zeros(())
        for layer in range(MODEL.num_layers):
            z, added = gather(h @ params[f"convs.{layer}.lin.weight"].T, layer, step)
            h, more = z + params[f"convs.{layer}.bias"], more + added
            h = h.relu() if layer < MODEL.num_layers - 1 else h
        loss = functional.cross_entropy(h[mask], y[mask])
        for value in params.values():
            value.grad = None
        (loss + more).backward()
        with torch.no_grad():
            for value in params.values():
                value -= RATE * value.grad
        losses.append(float(loss.detach()))
    return losses, params


def off(cycle, losses, params) -> float:
    """The largest relative error of a cycle's training."""
    run = CASE.play(cycle)
    errors = [worst(got, want) for got, want in zip(run.losses, losses, strict=True)]
    return max(*errors, *(worst(each, params[name]) for name, held in run.params.items() for each in held))
