"""What a program holds by its text is what the runtime takes from the pool, block for block."""

import threading
from collections import Counter

import numpy as np
import pytest
import torch

from gnnplan.planner.adjacency import aggregation_matrix
from gnnplan.planner.generate import generate_sbm
from gnnplan.planner.graph_spec import SbmGraph
from gnnplan.planner.model_spec import ModelSpec
from gnnplan.planner.models.forward import Task, forward_cycle, num_levels
from gnnplan.planner.program.constant import hoist_constants
from gnnplan.planner.program.cutter import Cutter
from gnnplan.planner.program.derive import differentiate
from gnnplan.planner.program.labels import Label, Labels
from gnnplan.planner.program.merge import merge_equal
from gnnplan.planner.program.optimizer import Optimizer
from gnnplan.planner.program.split import split_placed
from gnnplan.planner.program.storage import reuse_storage
from gnnplan.planner.readers.liveness import training_bytes
from gnnplan.planner.techniques.feature_slices.grid import Grid
from gnnplan.planner.techniques.feature_slices.layout import share_columns
from gnnplan.planner.techniques.halo_exchange.layout import share_rows
from gnnplan.planner.techniques.host_region.share import share_in_regions
from gnnplan.planner.techniques.joint_cache.refresh import refresh_every
from gnnplan.planner.techniques.operator_order.expand import expand_filters
from gnnplan.planner.techniques.overlap.lanes import overlap_exchanges
from gnnplan.profiles.kernels import pool
from tests.runtime.execution.threads import play_on_threads

# Large enough that nearly every tensor lies in the pool.
GRAPH = generate_sbm(SbmGraph(source="sbm", num_nodes=4000, average_degree=5, num_features=200, num_classes=40))

PASSES = [
    (),
    ("once",),
    ("labels",),
    ("labels", "once", "overlap"),
    ("overlap",),
    ("labels", "regions"),
    ("labels", "regions", "once", "overlap"),
    ("columns",),
    ("columns", "once", "overlap"),
]


def cycle_of(kind: str, order: str, num_workers: int, passes: tuple[str, ...]):
    """A training with dropout, through some passes."""
    model = ModelSpec(kind=kind, num_layers=3, hidden_channels=64, heads=4, num_hops=2, dropout=0.3)
    matrix = aggregation_matrix(GRAPH.num_nodes, GRAPH.edge_index, kind)
    masks = (GRAPH.train_mask, GRAPH.val_mask, GRAPH.test_mask)
    cycle = forward_cycle(model, Task(matrix, GRAPH.num_features, GRAPH.num_classes, masks), seed=0)
    cycle = expand_filters(cycle, {f"l{layer}/filter": order for layer in range(3)})
    rng, labels = np.random.default_rng(1), Labels()
    for level in range(num_levels(model) if "labels" in passes else 0):
        for worker in range(num_workers):
            labels = labels.marked(level, worker, rng.permutation(GRAPH.num_nodes)[:1500], Label.MADE)
            labels = labels.marked(level, worker, rng.permutation(GRAPH.num_nodes)[:1500], Label.KEPT)
            if "regions" in passes:
                labels = labels.marked(level, worker, rng.permutation(GRAPH.num_nodes)[:2000], Label.SHARED)
    if "columns" in passes:
        cycle = share_columns(cycle, Grid((3.0, 2.0)[:num_workers]))
    else:
        cutter = Cutter(rng.integers(0, num_workers, GRAPH.num_nodes), num_workers, labels)
        cycle = split_placed(share_rows(cycle, cutter))
    cycle = merge_equal(cycle)
    cycle = hoist_constants(cycle) if "once" in passes else cycle
    cycle = differentiate(cycle, Optimizer("adam"))
    cycle = refresh_every(cycle, 2) if "labels" in passes else cycle
    cycle = reuse_storage(share_in_regions(cycle, (0,) * num_workers) if "regions" in passes else cycle)
    return model, overlap_exchanges(cycle) if "overlap" in passes else cycle


class Watched:
    """A stand-in for the pool's blocks that counts every thread's own."""

    def __init__(self, monkeypatch) -> None:
        self.most: dict[int, Counter[int]] = {}
        self._live: dict[int, Counter[int]] = {}
        self._owner: dict[int, int] = {}
        watched = self

        class Freed(list):
            def __init__(self, size: int) -> None:
                super().__init__()
                self._size = size

            def append(self, block) -> None:
                owner = watched._owner.pop(id(block), None)
                if owner in watched._live:
                    watched._live[owner][self._size] -= 1

        class Free(dict):
            def __missing__(self, size: int) -> Freed:
                return self.setdefault(size, Freed(size))

        memory = pool.Pool(self._block)
        memory._free = Free()
        monkeypatch.setattr(pool, "_memory", memory)

    def _block(self, size: int):
        block, thread = pool.new_block(size), threading.get_ident()
        if thread in self._live:
            self._owner[id(block)] = thread
            self._live[thread][size] += 1
            self.most[thread][size] = max(self.most[thread][size], self._live[thread][size])
        return block

    def begin(self, held: list[int]) -> None:
        """Counts from now on, with blocks of these sizes already there."""
        sizes = [pool.block_bytes(num_bytes) for num_bytes in held if num_bytes >= pool.POOLED_BYTES]
        self._live[threading.get_ident()], self.most[threading.get_ident()] = Counter(sizes), Counter(sizes)

    def end(self) -> dict[int, int]:
        """Of every size the most at once."""
        return {size: count for size, count in self.most[threading.get_ident()].items() if count}


@pytest.mark.long
@pytest.mark.parametrize("passes", PASSES)
@pytest.mark.parametrize("order", ["multiply_first", "aggregate_first"])
@pytest.mark.parametrize("kind", ["gcn", "sage", "gin", "tagcn", "gat"])
def test_blocks_are_counted_to_the_byte(kind, order, passes, monkeypatch):
    """Of every size as many as the program says, for every worker."""
    num_workers = 2
    _, cycle = cycle_of(kind, order, num_workers, passes)
    watched = Watched(monkeypatch)
    cells = [name for name, value in cycle.values.items() if (value.role, value.tier) == ("cell", "device")]
    filled = [name for name in cells if not name.startswith(("exp_avg", "num_steps"))]
    rng = np.random.default_rng(0)
    weights = {
        name: torch.from_numpy(rng.normal(size=(cycle.num_rows(name, 0), cycle.values[name].width))).float()
        for name in cycle.parameters
    }
    ids, labels = cycle.arrays.ids, cycle.values["y"].space
    inputs = {
        "x": [torch.from_numpy(GRAPH.x[each]) for each in ids["v@0"]],
        "y": [torch.from_numpy(GRAPH.y[each])[:, None] for each in ids[labels]],
    }

    def count(executor, rank):
        watched.begin([executor.stored[name].nbytes for name in filled if name in executor.stored])
        for epoch in range(3):
            executor.run(cycle.order[epoch % len(cycle.order)], epoch)
        return watched.end()

    found = play_on_threads(cycle, inputs, weights, count)
    for worker in range(num_workers):
        said = training_bytes(cycle, worker).pooled
        assert said == found[worker]
        assert len(said) > 2, "a program that holds next to nothing tests nothing"


@pytest.mark.parametrize("passes", [("labels",), ("columns",), ("columns", "overlap")])
@pytest.mark.parametrize("kind", ["appnp", "decoupled_gat"])
def test_blocks_of_decoupled_models_are_counted_to_the_byte(kind, passes, monkeypatch):
    """Of runs of columns, and of attention that several sums use."""
    test_blocks_are_counted_to_the_byte(kind, "multiply_first", passes, monkeypatch)
