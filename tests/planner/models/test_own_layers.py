"""Layers that run their own code have the numbers of PyG's plain training, however many workers there are."""

from functools import cache

import numpy as np
import pytest
from torch import nn
from torch_geometric import nn as pyg

from gnnplan.planner.models.module_state import matrices_of
from gnnplan.planner.models.own_layers import runs_code_for_sure
from gnnplan.planner.program.sequential import SequentialExecutor
from tests.planner.models.own_layers import LAYERS
from tests.planner.models.trained_modules import by_program, by_pyg, composed, forward_of, inputs_of, made
from tests.planner.program.cases import partition, small_graph, worst
from tests.runtime.execution.threads import play_on_threads

EPOCHS = 5
TECHNIQUES = [
    (1, "halo_exchange"),
    *((3, each) for each in ("halo_exchange", "replicas", "overlap", "joint_cache", "once")),
    (2, "replicas"),
    (4, "halo_exchange"),
]


@cache
def by_autograd(name):
    return by_pyg(made(LAYERS[name]), small_graph(), EPOCHS)


@pytest.mark.long
@pytest.mark.parametrize(("num_workers", "technique"), TECHNIQUES, ids=str)
@pytest.mark.parametrize("name", LAYERS)
def test_trains_as_pyg_does(name, num_workers, technique):
    """Losses, parameters and what an evaluation finds right, after five epochs; halo rows take part."""
    got, want = by_program(made(LAYERS[name]), small_graph(), num_workers, technique, EPOCHS), by_autograd(name)
    assert got.off(want) <= 1e-5
    assert got.hits == want.hits
    assert want.losses[-1] < want.losses[0]


@pytest.mark.parametrize("name", LAYERS)
def test_it_is_one_operator(name):
    """Of each kind in both programs, and none of it is left to equations."""
    cycle = forward_of(made(LAYERS[name]), small_graph())
    for program in ("train", "evaluate"):
        layers = [op for op in cycle.programs[program] if op.kind == "layer"]
        assert len(layers) == (1 if name == "gin, trained" else 2)
        assert {op.attributes["training"] for op in layers} == {program == "train"}


@pytest.mark.long
@pytest.mark.parametrize("technique", ["halo_exchange", "replicas", "overlap"])
@pytest.mark.parametrize("name", ["own, greatest", "own, from the start", "pna"])
def test_workers_play_as_the_sequential_executor(name, technique):
    """Losses and parameters, in float32 against float64."""
    graph, module = small_graph(), made(LAYERS[name])
    cycle = composed(module, graph, 2, technique, partition(2))
    inputs, start = inputs_of(cycle, graph), matrices_of(module, cycle)
    want = SequentialExecutor(cycle, inputs, start, module=module)
    losses = [float(want.run("train", epoch)["total_loss"][0]) for epoch in range(3)]

    def train(executor, rank):
        found = [float(executor.run("train", epoch)["total_loss"]) for epoch in range(3)]
        return found, {each: executor.stored[each] for each in start}

    for got, ends in play_on_threads(cycle, inputs, start, train, module):
        assert worst(np.array(got), np.array(losses)) < 1e-5
        for each, end in ends.items():
            right = want.stored[each][0]
            assert float((end.double() - right).norm()) <= 1e-5 * max(float(right.norm()), 1e-2), each


@pytest.mark.parametrize(
    ("layer", "runs_code"),
    [
        (pyg.GCNConv(4, 4), False),
        (pyg.GCN2Conv(4, 0.1), False),
        (pyg.RGCNConv(4, 4, 3), False),
        (pyg.FastRGCNConv(4, 4, 3, num_bases=2), False),
        (pyg.GATv2Conv(4, 4), True),
    ],
)
def test_only_layers_without_equations_need_their_code(layer, runs_code):
    """A module in memory whose layers all have equations is trained by workers that have never seen it."""
    assert runs_code_for_sure(nn.Sequential(nn.Linear(4, 4), layer)) == runs_code
