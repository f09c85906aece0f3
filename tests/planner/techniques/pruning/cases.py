"""Small partitions and linear costs to prune."""

import numpy as np
from hypothesis import strategies as st

from benchmarks.oracles.linear_cost import LinearCost
from gnnplan.planner.graph import Graph
from gnnplan.planner.techniques.pruning.pairs import HaloPairs


def graph_of(num_nodes, edge_index, num_features=4):
    """A graph with these edges and every vertex in the training split."""
    rng = np.random.default_rng(0)
    everything, nothing = np.ones(num_nodes, bool), np.zeros(num_nodes, bool)
    x, y = rng.standard_normal((num_nodes, num_features)).astype(np.float32), np.zeros(num_nodes, np.int64)
    return Graph(num_nodes, np.asarray(edge_index), x, y, everything, nothing, nothing, 2, "small")


@st.composite
def cut_graphs(draw, min_workers=1):
    """(graph, part, W): repeated edges, self loops, isolated vertices and empty parts included."""
    n = draw(st.integers(1, 14))
    edges = draw(st.lists(st.tuples(*[st.integers(0, n - 1)] * 2), max_size=50))
    num_workers = draw(st.integers(min_workers, 4))
    part = draw(st.lists(st.integers(0, num_workers - 1), min_size=n, max_size=n))
    return graph_of(n, np.array(edges, np.int64).reshape(-1, 2).T), np.array(part, np.int32), num_workers


@st.composite
def linear_cases(draw, max_pairs=9):
    """(pairs, cost): any halo of few vertices, any costs that are not all zero."""
    size, count = draw(st.integers(2, 4)), draw(st.integers(0, max_pairs))
    rng = np.random.default_rng(draw(st.integers(0, 2**32)))
    owner = rng.integers(0, size, count)
    worker = (owner + rng.integers(1, size, count)) % size
    by_worker = np.argsort(worker, kind="stable")
    worker, owner = worker[by_worker].astype(np.int32), owner[by_worker].astype(np.int32)
    pairs = HaloPairs(size, worker, np.arange(count), owner, rng.integers(1, 6, count), rng.random(count))
    slopes = [rng.random(size) * rng.integers(0, 2) for _ in range(3)]
    return pairs, LinearCost(rng.random(size) * draw(st.sampled_from([1.0, 5.0])) + 0.1, *slopes)


def always_fits(worker, loads):
    """Memory without end."""
    return True
