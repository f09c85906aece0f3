"""Modules of one's own on projected ranks: the sequential executor's numbers, and the bytes that liveness counts."""

import numpy as np
import pytest

from gnnplan.planner.generate import generate_sbm
from gnnplan.planner.graph_spec import SbmGraph
from gnnplan.planner.models.module_state import matrices_of
from gnnplan.planner.program.optimizer import Optimizer
from gnnplan.planner.program.sequential import SequentialExecutor
from tests.planner.models import own_modules
from tests.planner.models.own_modules import MODULES
from tests.planner.models.trained_modules import composed, inputs_of, made
from tests.planner.program.cases import partition, small_graph, worst
from tests.runtime.execution.counted_blocks import assert_counted
from tests.runtime.execution.threads import play_on_threads

EPOCHS = 3


@pytest.mark.parametrize("technique", ["halo_exchange", "replicas", "overlap", "feature_slices"])
@pytest.mark.parametrize("name", MODULES)
def test_plays_as_the_sequential_executor(name, technique):
    """Losses, parameters and running statistics, in float32 against float64."""
    graph, module = small_graph(), made(MODULES[name])
    cycle = composed(module, graph, 2, technique, partition(2))
    inputs, start = inputs_of(cycle, graph), matrices_of(module, cycle)
    want = SequentialExecutor(cycle, inputs, start)
    losses = [float(want.run("train", epoch)["total_loss"][0]) for epoch in range(EPOCHS)]
    hits = want.run("evaluate")["hits"][0].tolist()

    def train(executor, rank):
        found = [float(executor.run("train", epoch)["total_loss"]) for epoch in range(EPOCHS)]
        return found, executor.run("evaluate")["hits"].tolist(), {each: executor.stored[each] for each in start}

    for got, counted, ends in play_on_threads(cycle, inputs, start, train):
        assert worst(np.array(got), np.array(losses)) < 1e-5
        assert counted == hits
        for each, end in ends.items():
            right = want.stored[each][0]
            assert float((end.double() - right).norm()) <= 1e-5 * max(float(right.norm()), 1e-2), each


@pytest.mark.parametrize(
    "optimizer",
    [
        Optimizer("sgd", 0.05, 0.1, momentum=0.9, schedule="linear", num_epochs=4),
        Optimizer("adamw", 0.01, 0.1, schedule="cosine", num_epochs=4),
        Optimizer("adagrad", 0.01, 0.1, clip_norm=0.1),
        Optimizer("rmsprop", 0.01, momentum=0.5, arguments=(("centered", True),), warmup_epochs=3, num_epochs=4),
        Optimizer("radam", 0.01, clip_value=0.01),
    ],
    ids=lambda each: each.kind,
)
def test_steps_are_the_sequential_executors(optimizer):
    """Momentum, decoupled decay and schedules, by torch's fused kernels."""
    graph, module = small_graph(), made(MODULES["gated"])
    cycle = composed(module, graph, 2, "halo_exchange", partition(2), optimizer)
    inputs, start = inputs_of(cycle, graph), matrices_of(module, cycle)
    want = SequentialExecutor(cycle, inputs, start)
    losses = [float(want.run("train", epoch)["total_loss"][0]) for epoch in range(4)]
    for got in play_on_threads(cycle, inputs, start, lambda each, _: _losses(each)):
        assert worst(np.array(got), np.array(losses)) < 1e-5


def _losses(executor):
    return [float(executor.run("train", epoch)["total_loss"]) for epoch in range(4)]


LARGE = generate_sbm(SbmGraph(source="sbm", num_nodes=3000, average_degree=5, num_features=40, num_classes=20))


@pytest.mark.long
@pytest.mark.parametrize("technique", ["halo_exchange", "replicas", "overlap", "feature_slices"])
@pytest.mark.parametrize(
    "name",
    [
        "skips, sage, batch norm",
        "skips, gat, row norm of pyg",
        "gated",
        "gcnii",
        "pyg's gcn, jumping",
        "arxiv, gcn",
        "residual",
    ],
)
def test_blocks_are_counted_to_the_byte(name, technique, monkeypatch):
    """Of every size as many as the program says, for every worker."""
    monkeypatch.setattr(own_modules, "WIDTH", 48)
    module = made(MODULES[name], LARGE)
    part = np.random.default_rng(0).integers(0, 2, LARGE.num_nodes)
    cycle = composed(module, LARGE, 2, technique, part)
    assert_counted(cycle, inputs_of(cycle, LARGE), matrices_of(module, cycle), monkeypatch)
