"""Sums by types of edges on projected ranks: the sequential executor's numbers, and the bytes that liveness counts."""

import numpy as np
import pytest

from gnnplan.planner.generate import generate_sbm
from gnnplan.planner.graph_spec import SbmGraph
from gnnplan.planner.models.module_state import matrices_of
from gnnplan.planner.program.sequential import SequentialExecutor
from tests.planner.models import relational_modules
from tests.planner.models.relational_modules import KNOWN, graph_with_types
from tests.planner.models.trained_modules import composed, inputs_of, made
from tests.planner.program.cases import partition, worst
from tests.runtime.execution.counted_blocks import assert_counted
from tests.runtime.execution.test_program_executor import on_device
from tests.runtime.execution.threads import play_on_threads

EPOCHS = 3
TECHNIQUES = ("halo_exchange", "sparse_features", "replicas", "overlap", "feature_slices")


@pytest.mark.parametrize("technique", TECHNIQUES)
@pytest.mark.parametrize("name", ["rgcn, dropout", "rgcn, bases", "rgcn, without root", "beside a sum over all"])
def test_plays_as_the_sequential_executor(name, technique):
    """Losses and parameters, in float32 against float64."""
    graph, module = graph_with_types(), made(KNOWN[name])
    cycle = composed(module, graph, 2, technique, partition(2))
    inputs, start = inputs_of(cycle, graph), matrices_of(module, cycle)
    want = SequentialExecutor(cycle, inputs, start)
    losses = [float(want.run("train", epoch)["total_loss"][0]) for epoch in range(EPOCHS)]

    def train(executor, rank):
        found = [float(executor.run("train", epoch)["total_loss"]) for epoch in range(EPOCHS)]
        return found, {each: executor.stored[each] for each in start}

    on_devices = {name: [on_device(each) for each in values] for name, values in inputs.items()}
    for got, ends in play_on_threads(cycle, on_devices, start, train):
        assert worst(np.array(got), np.array(losses)) < 1e-5
        for each, end in ends.items():
            right = want.stored[each][0]
            assert float((end.double() - right).norm()) <= 1e-5 * max(float(right.norm()), 1e-2), each


LARGE = graph_with_types(
    generate_sbm(SbmGraph(source="sbm", num_nodes=3000, average_degree=5, num_features=40, num_classes=20))
)


@pytest.mark.long
@pytest.mark.parametrize("technique", TECHNIQUES)
@pytest.mark.parametrize("name", ["rgcn", "rgcn, bases"])
def test_blocks_are_counted_to_the_byte(name, technique, monkeypatch):
    """Of every size as many as the program says, for every worker."""
    monkeypatch.setattr(relational_modules, "WIDTH", 48)
    module = made(KNOWN[name], LARGE)
    part = np.random.default_rng(0).integers(0, 2, LARGE.num_nodes)
    cycle = composed(module, LARGE, 2, technique, part)
    inputs = {key: [on_device(each) for each in values] for key, values in inputs_of(cycle, LARGE).items()}
    assert_counted(cycle, inputs, matrices_of(module, cycle), monkeypatch)
