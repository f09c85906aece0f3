"""Modules of one's own in chunks: norms, residuals, jumping knowledge and dropout, as PyG's layers have them."""

from copy import deepcopy
from itertools import pairwise

import numpy as np
import pytest
import torch
from torch import nn
from torch.nn import functional as F
from torch_geometric import nn as pyg

from gnnplan.planner.chunks.draw import chunk_of
from gnnplan.planner.composition.compose import compose
from gnnplan.planner.contracts.technique import Choice, Situation
from gnnplan.planner.model_spec import ModelSpec
from gnnplan.planner.models.module_state import matrices_of, store
from gnnplan.planner.program.sequential import SequentialExecutor
from gnnplan.planner.techniques.source_chunks.decision import Chunks
from gnnplan.runtime.module_reference import SameDropout
from gnnplan.runtime.reference import dense_features
from tests.planner.models.own_modules import MODULES as OWN
from tests.planner.models.own_modules import Skips, _attending
from tests.planner.models.trained_modules import RATE, SEED, STEP, Outcome, forward_of, inputs_of, made
from tests.planner.program.cases import NUM_NODES, partition, small_graph
from tests.planner.techniques.source_chunks.chunked import chosen
from tests.planner.techniques.source_chunks.moving_modules import moving

STEPS, CLOSE = 7, 1e-5  # weights of edges are float32 in a program, and float64 in PyG
SPLIT = Chunks(num_chunks=3, seed=1)
DRAWN = Chunks(num_chunks=3, seed=1, draws="independent")


class Published(nn.Module):
    """As Emma's code has its models: dropout, a layer with a root weight, LayerNorm, ReLU."""

    def __init__(self, num_features: int, num_classes: int, width: int = 6, layers: int = 3) -> None:
        super().__init__()
        widths = [num_features, *[width] * (layers - 1), num_classes]
        self.convs = nn.ModuleList([pyg.SAGEConv(a, b) for a, b in pairwise(widths)])
        self.norms = nn.ModuleList([nn.LayerNorm(width) for _ in range(layers - 1)])

    def forward(self, x, edge_index):
        for number, conv in enumerate(self.convs):
            x = conv(F.dropout(x, 0.3, self.training), edge_index)
            if number < len(self.norms):
                x = self.norms[number](x).relu()
        return x


# Of each, whether its layers sum before they multiply, as PyG's code of the same layer does.
MODULES = {
    "skips, gcn, layer norm": (OWN["skips, gcn, layer norm"], False),
    "skips, sage, batch norm": (OWN["skips, sage, batch norm"], True),
    "skips, gat, layer norm": (lambda f, c: Skips(f, c, _attending, nn.LayerNorm), False),
    "gat with self loops, layer norm": (lambda f, c: Skips(f, c, pyg.GATConv, nn.LayerNorm), False),
    "pyg's gcn, jumping": (OWN["pyg's gcn, jumping"], False),
    "as published": (Published, True),
}


def cycle_of(module, num_workers, decision, *, aggregate_first):
    forward = forward_of(module, small_graph())
    filters = [op.key for op in forward.programs["train"] if op.kind == "filter"]
    choices = [
        chosen("halo_exchange", {"part": partition(num_workers).astype(np.int32)}),
        chosen("operator_order", of=dict.fromkeys(filters, "aggregate_first") if aggregate_first else {}),
        Choice("source_chunks", decision),
    ]
    return compose(forward, choices, Situation(ModelSpec(kind="module"), num_workers, (0,) * num_workers), STEP)


def by_program(module, num_workers, decision, *, aggregate_first, steps=STEPS):
    """Losses, the module's state, and what evaluating finds; it evaluates once amid training, too."""
    module, graph = deepcopy(module).double(), small_graph()
    cycle = cycle_of(module, num_workers, decision, aggregate_first=aggregate_first)
    start = matrices_of(module, cycle)
    executor = SequentialExecutor(cycle, inputs_of(cycle, graph), start)
    losses = []
    for step in range(steps):
        results = executor.run(cycle.order[step % len(cycle.order)], step)
        losses.append(float(results["loss" if num_workers == 1 else "total_loss"][0]))
        if step == steps // 2:
            before = {name: [each.clone() for each in held] for name, held in executor.stored.items()}
            executor.run("evaluate")
            for name, held in before.items():
                assert all(map(torch.equal, held, executor.stored[name])), f"evaluating has changed {name}"
    hits = executor.run("evaluate")["hits"][0].tolist()
    store(module, cycle, {name: executor.stored[name][0] for name in start}, steps)
    return Outcome(losses, {name: each.detach() for name, each in module.state_dict().items()}, hits)


def edges_of(module, graph):
    """How many edges leave every vertex: repeated ones are one edge, but to attention."""
    attends = any(isinstance(each, pyg.GATConv) for each in module.modules())
    source, target = graph.edge_index if attends else np.unique(graph.edge_index, axis=1)
    return np.bincount(source[source != target], minlength=NUM_NODES)


def by_pyg(module, decision):
    """PyG's layers, whose sums move, in float64 and one process."""
    module, graph = deepcopy(module).double().train(), small_graph()
    chunk = chunk_of(edges_of(module, graph), decision.num_chunks, decision.seed, draws=decision.draws)
    x, edge_index = torch.from_numpy(dense_features(graph)).double(), torch.from_numpy(graph.edge_index).long()
    mask, y, losses = torch.from_numpy(graph.train_mask), torch.from_numpy(graph.y), []
    optimizer = torch.optim.SGD(module.parameters(), RATE)
    pushing = [chunk == number for number in range(decision.num_chunks)]
    with moving(module, pushing, decision.mass_fade) as states:
        for step in range(STEPS):
            states.begin(step)
            optimizer.zero_grad()
            with SameDropout(SEED, step):
                loss = F.cross_entropy(module(x, edge_index)[mask], y[mask])
            loss.backward()
            optimizer.step()
            losses.append(float(loss.detach()))
        states.begin(None)
        with torch.no_grad():
            right = module.eval()(x, edge_index).argmax(1) == y
    masks = (graph.train_mask, graph.val_mask, graph.test_mask)
    hits = [[float(right[torch.from_numpy(each)].sum()), float(each.sum())] for each in masks]
    return Outcome(losses, {name: each.detach().clone() for name, each in module.state_dict().items()}, hits)


@pytest.mark.long
@pytest.mark.parametrize(("num_workers", "decision"), [(1, SPLIT), (3, SPLIT), (2, DRAWN)], ids=str)
@pytest.mark.parametrize("name", MODULES)
def test_equals_pyg_layers_in_chunks(name, num_workers, decision):
    """Losses, weights, running statistics and evaluations, on any number of workers and with either draw."""
    build, aggregate_first = MODULES[name]
    module = made(build)
    got = by_program(module, num_workers, decision, aggregate_first=aggregate_first)
    want = by_pyg(module, decision)
    assert got.off(want, nothing=1e-4) < CLOSE
    assert got.hits == want.hits


@pytest.mark.long
@pytest.mark.parametrize("name", MODULES)
def test_one_chunk_is_full_batch(name):
    """B = 1 has the program of plain training; more chunks have other numbers."""
    build, aggregate_first = MODULES[name]
    module = made(build)
    one = by_program(module, 3, Chunks(), aggregate_first=aggregate_first)
    assert one.off(by_program(module, 1, Chunks(), aggregate_first=aggregate_first), nothing=1e-4) < 1e-9
    assert one.off(by_program(module, 3, SPLIT, aggregate_first=aggregate_first)) > 1e-3
