"""Random workers: a small graph, cut at random, with a model, rates and a budget."""

from dataclasses import dataclass

import numpy as np
import scipy.sparse as sp
from hypothesis import strategies as st

from gnnplan.planner.adjacency import aggregation_matrix
from gnnplan.planner.halo import LocalBlock, build_halo
from gnnplan.planner.hybrid.dependencies import Dependencies, Rates, find_dependencies
from gnnplan.planner.hybrid.levels import Levels, levels_of, why_not
from gnnplan.planner.hybrid.neighbourhood import Neighbourhood, build_neighbourhood
from gnnplan.planner.job import ModelSpec
from gnnplan.planner.steps import LayerDecision

NUM_WORKERS = 3
SECONDS = st.sampled_from([0.0, 1e-6, 3e-6, 1e-5, 1e-4, 1e-3])
RATES = st.builds(Rates, vertex_s=SECONDS, edge_s=SECONDS, row_s=st.tuples(*[SECONDS] * NUM_WORKERS))


@dataclass(frozen=True)
class Worker:
    """The first of three workers, and all there is to know of its dependencies."""

    matrix: sp.csr_matrix
    block: LocalBlock
    levels: Levels
    near: Neighbourhood
    dependencies: Dependencies


def worker_of(matrix, part, levels) -> Worker:
    block = build_halo(matrix, part, NUM_WORKERS).blocks[0]
    near = build_neighbourhood(matrix, block, levels.num_hops)
    return Worker(matrix, block, levels, near, find_dependencies(near, levels))


def decisions(kind, num_layers):
    """Every list of operator orders that leaves a model's rows replicable."""
    orders = {"gat": ["multiply_first"], "tagcn": ["aggregate_first"]}.get(kind, ["multiply_first", "aggregate_first"])
    first = st.sampled_from(orders).map(lambda order: LayerDecision(op_order=order))
    if kind != "gat":
        first |= st.just(LayerDecision(op_order="aggregate_first", precompute=True))
    later = st.sampled_from(orders).map(lambda order: LayerDecision(op_order=order))
    model = ModelSpec(kind=kind, num_layers=num_layers, hidden_channels=8, num_hops=2)
    return (
        st.tuples(first, *[later] * (num_layers - 1))
        .filter(lambda layers: why_not(model, layers) is None)
        .map(lambda layers: levels_of(model, layers, num_features=5, num_classes=3))
    )


@st.composite
def workers(draw, kinds=("gcn", "sage", "gin", "gat"), max_nodes=12, max_layers=4):
    """A worker with a random, perhaps empty, part of a random graph."""
    n = draw(st.integers(1, max_nodes))
    pairs = draw(st.lists(st.tuples(*[st.integers(0, n - 1)] * 2), max_size=4 * n))
    kind = draw(st.sampled_from(kinds))
    matrix = aggregation_matrix(n, np.array(pairs, np.int64).reshape(-1, 2).T, kind)
    part = np.array(draw(st.lists(st.integers(0, NUM_WORKERS - 1), min_size=n, max_size=n)), np.int32)
    return worker_of(matrix, part, draw(decisions(kind, draw(st.integers(1, max_layers)))))


@st.composite
def budgets(draw, worker):
    """Bytes between nothing and a little more than everything costs."""
    most = int(worker.dependencies.alone.num_bytes.sum())
    return draw(st.integers(0, most + 1))


@st.composite
def problems(draw, **limits):
    """(worker, rates, budget in bytes)."""
    worker = draw(workers(**limits))
    return worker, draw(RATES), draw(budgets(worker))
