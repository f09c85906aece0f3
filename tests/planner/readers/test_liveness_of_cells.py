"""States that move, late rows and compressed ones are counted as the runtime takes them from the pool."""

from dataclasses import replace

import numpy as np
import pytest
import torch

from gnnplan.planner.adjacency import aggregation_matrix
from gnnplan.planner.cluster import Cluster, DeviceSpec, HostSpec, resolve
from gnnplan.planner.composition.compose import compose
from gnnplan.planner.contracts.technique import Choice, Situation
from gnnplan.planner.model_spec import ModelSpec
from gnnplan.planner.models.forward import Task, forward_cycle
from gnnplan.planner.program.cells import starting_cells
from gnnplan.planner.program.optimizer import Optimizer
from gnnplan.planner.readers.liveness import training_bytes
from gnnplan.planner.readers.memory import estimate_memory
from gnnplan.planner.techniques.registry import technique
from tests.planner.readers.test_liveness import GRAPH, Watched
from tests.runtime.execution.threads import play_on_threads

NUM_WORKERS = 2
CHOSEN = {
    "chunks": ("source_chunks", {"num_chunks": 3}),
    "corrected": ("source_chunks", {"num_chunks": 3, "correction": True, "exact_every": 1}),
    "late": ("late_halos", {}),
    "sampled": ("boundary_sampling", {"num_draws": 2, "probability": 0.3}),
    "int8": ("compression", {"format": "int8"}),
    "float16": ("compression", {"format": "float16"}),
}


def cycle_of(kind, order, name, *beside):
    """A training with dropout under one technique."""
    model = ModelSpec(kind=kind, num_layers=3, hidden_channels=64, heads=4, dropout=0.3)
    matrix = aggregation_matrix(GRAPH.num_nodes, GRAPH.edge_index, kind)
    masks = (GRAPH.train_mask, GRAPH.val_mask, GRAPH.test_mask)
    forward = forward_cycle(model, Task(matrix, GRAPH.num_features, GRAPH.num_classes, masks), seed=0)
    part = np.random.default_rng(1).integers(0, NUM_WORKERS, GRAPH.num_nodes).astype(np.int32)
    orders = {f"l{layer}/filter": order for layer in range(3)}
    of, decision = CHOSEN[name]
    choices = [
        Choice("halo_exchange", technique("halo_exchange").Decision(), {"part": part}),
        Choice("operator_order", technique("operator_order").Decision(of=orders)),
        Choice(of, technique(of).Decision(**decision)),
        *(Choice(each, technique(each).Decision()) for each in beside),
    ]
    return compose(forward, choices, Situation(model, NUM_WORKERS, (0,) * NUM_WORKERS), Optimizer("adam"))


@pytest.mark.long
@pytest.mark.parametrize("beside", [(), ("overlap",)], ids=["alone", "overlapped"])
@pytest.mark.parametrize("name", CHOSEN)
@pytest.mark.parametrize(
    ("kind", "order"), [("gcn", "multiply_first"), ("sage", "aggregate_first"), ("gat", "multiply_first")]
)
def test_blocks_are_counted_to_the_byte(kind, order, name, beside, monkeypatch):
    """Of every size as many as the programs say, for every worker."""
    cycle = cycle_of(kind, order, name, *beside)
    watched, rng = Watched(monkeypatch), np.random.default_rng(0)
    weights = {
        each: torch.from_numpy(rng.normal(size=(cycle.num_rows(each, 0), cycle.values[each].width))).float()
        for each in cycle.parameters
    }
    ids, labels = cycle.arrays.ids, cycle.values["y"].space
    inputs = {
        "x": [torch.from_numpy(GRAPH.x[each]) for each in ids["v@0"]],
        "y": [torch.from_numpy(GRAPH.y[each])[:, None] for each in ids[labels]],
    }

    def count(executor, rank):
        watched.begin([])
        for epoch in range(2 * len(cycle.order) + 1):
            executor.run(cycle.order[epoch % len(cycle.order)], epoch)
        return watched.end()

    found = play_on_threads(cycle, inputs, weights, count)
    for worker in range(NUM_WORKERS):
        said = training_bytes(cycle, worker).pooled
        assert said == found[worker]
        assert len(said) >= 3, "a program that holds next to nothing tests nothing"


def test_a_training_has_a_copy_of_its_parameters():
    """From which an epoch is played again; what only evaluates has none."""
    cycle = cycle_of("gcn", "multiply_first", "late")
    host = HostSpec(name="here", devices=(DeviceSpec(catalog="t4", count=NUM_WORKERS),))
    profile = resolve(Cluster(hosts=(host,))).profile_of(0)
    estimate = estimate_memory(cycle, 0, profile)
    assert estimate.before_bytes == sum(cycle.num_bytes(each, 0) for each in cycle.parameters) > 0
    without = replace(cycle, programs={"evaluate": cycle.programs["evaluate"]}, order=("evaluate",))
    assert estimate_memory(without, 0, profile).before_bytes == 0


@pytest.mark.parametrize("name", ["chunks", "late"])
def test_cells_that_start_at_zero_count_once(name):
    """Those that are changed count among what stays, and those that are made anew in the epoch."""
    cycle = cycle_of("gcn", "multiply_first", name)
    host = HostSpec(name="here", devices=(DeviceSpec(catalog="t4", count=NUM_WORKERS),))
    profile = resolve(Cluster(hosts=(host,))).profile_of(0)
    estimate = estimate_memory(cycle, 0, profile)
    states = [each for each in starting_cells(cycle) if not each.startswith(("exp_avg", "num_steps"))]
    assert states
    rest = sum(cycle.num_bytes(each, 0) for each in {*cycle.parameters, *starting_cells(cycle)} - {*states})
    held = sum(cycle.num_bytes(each, 0) for each in states)
    assert estimate.parameter_bytes == rest + (held if name == "chunks" else 0)
    assert estimate.epoch_bytes > (0 if name == "chunks" else held)
