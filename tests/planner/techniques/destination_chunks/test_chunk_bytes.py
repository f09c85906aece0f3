"""What chunks save, and that it is counted as the runtime holds it."""

from collections import Counter

import numpy as np
import pytest
import torch

from gnnplan.planner.adjacency import aggregation_matrix
from gnnplan.planner.composition.compose import compose
from gnnplan.planner.contracts.technique import Choice, Situation
from gnnplan.planner.model_spec import ModelSpec
from gnnplan.planner.models.forward import Task, forward_cycle
from gnnplan.planner.program.optimizer import Optimizer
from gnnplan.planner.readers.liveness import training_bytes
from tests.planner.readers.test_liveness import GRAPH, Watched
from tests.planner.techniques.feature_slices.sliced import choice, slices
from tests.runtime.execution.threads import play_on_threads

FIRST = {f"l{layer}/filter": "aggregate_first" for layer in range(3)}


def cycle_of(kind, num_workers, num_chunks, *extra, layout="rows", recompute="sums", graph=GRAPH):
    """A training on a graph whose tensors lie in the pool."""
    model = ModelSpec(kind=kind, num_layers=3, hidden_channels=64, heads=4, num_hops=2)
    matrix = aggregation_matrix(graph.num_nodes, graph.edge_index, kind)
    masks = (graph.train_mask, graph.val_mask, graph.test_mask)
    forward = forward_cycle(model, Task(matrix, graph.num_features, graph.num_classes, masks), seed=0)
    part = np.random.default_rng(1).integers(0, num_workers, graph.num_nodes).astype(np.int32)
    rows = Choice("halo_exchange", choice("halo_exchange").decision, {"part": part})
    laid_out = rows if layout == "rows" else slices([3.0, 2.0][:num_workers])
    chunks = choice("destination_chunks", num_chunks=num_chunks, recompute=recompute)
    choices = [laid_out, choice("operator_order", of=FIRST), chunks, *map(choice, extra)]
    return compose(forward, choices, Situation(model, num_workers, (0,) * num_workers), Optimizer("adam"))


@pytest.mark.long
@pytest.mark.parametrize("extra", [("overlap",), ("overlap", "offload")])
@pytest.mark.parametrize("layout", ["rows", "columns"])
@pytest.mark.parametrize("kind", ["gcn", "gat"])
def test_blocks_are_counted_to_the_byte(kind, layout, extra, monkeypatch):
    """Of every size as many as the program says, for every worker; what lies on disk is none of them."""
    cycle, watched = cycle_of(kind, 2, 3, *extra, layout=layout), Watched(monkeypatch)
    rng, ids = np.random.default_rng(0), cycle.arrays.ids
    weights = {
        name: torch.from_numpy(rng.normal(size=(cycle.num_rows(name, 0), cycle.values[name].width))).float()
        for name in cycle.parameters
    }
    inputs = {
        "x": [torch.from_numpy(GRAPH.x[each]) for each in ids["v@0"]],
        "y": [torch.from_numpy(GRAPH.y[each])[:, None] for each in ids[cycle.values["y"].space]],
    }

    def count(executor, rank):
        watched.begin([])
        losses = [executor.run("train", epoch)["total_loss"].item() for epoch in range(3)]
        assert np.isfinite(losses).all()
        return watched.end()

    found = play_on_threads(cycle, inputs, weights, count)
    for worker in range(2):
        assert training_bytes(cycle, worker).pooled == found[worker]


def peak_bytes(cycle):
    return max(training_bytes(cycle, worker, on_cuda=True).peak_bytes for worker in cycle.workers)


@pytest.mark.parametrize(
    ("kind", "num_workers", "layout"), [("gcn", 1, "rows"), ("gat", 1, "rows"), ("gat", 2, "columns")]
)
def test_the_peak_is_lower(kind, num_workers, layout):
    """By a tenth and more; and with more chunks not higher."""
    whole, four, eight = (peak_bytes(cycle_of(kind, num_workers, count, layout=layout)) for count in (1, 4, 8))
    assert four < 0.9 * whole
    assert eight <= four


def test_attention_is_kept_where_nothing_is_computed_again():
    """Then bytes by edge stay for the backward half."""
    kept, again = (peak_bytes(cycle_of("gat", 1, 4, recompute=each)) for each in ("nothing", "attention"))
    edges = GRAPH.num_edges * 4 * 4
    assert again < kept - edges / 2


def test_only_chunks_are_computed_again():
    """Keys and values are new, and each operator comes once more at most."""
    cycle = cycle_of("gat", 1, 4)
    keys = Counter(op.key for op in cycle.programs["train"])
    again = [key for key in keys if key.endswith("/again")]
    assert again
    assert max(keys.values()) == 1
    assert all(key.removesuffix("/again") in keys and "[" in key for key in again)
