"""Entries of aggregated sparse features, estimated from the first hop."""

from dataclasses import replace

import numpy as np
import pytest
import scipy.sparse as sp

from gnnplan.planner.adjacency import aggregation_matrix
from gnnplan.planner.contracts.setting import Memo
from gnnplan.planner.graph import Graph
from gnnplan.planner.program.arrays import Arrays
from gnnplan.planner.program.cycle import Cycle
from gnnplan.planner.program.parts import Operator, Space, Value
from gnnplan.planner.search.entries import with_entries

NUM_NODES, WIDTH = 1500, 64


@pytest.fixture
def graph():
    """Edges and features at random; one entry of a hundred is not zero."""
    rng = np.random.default_rng(0)
    edges = rng.integers(0, NUM_NODES, (2, 12_000)).astype(np.int32)
    x = (rng.random((NUM_NODES, WIDTH)) < 0.01).astype(np.float32)
    mask = np.ones(NUM_NODES, bool)
    return Graph(NUM_NODES, edges, x, np.zeros(NUM_NODES, np.int64), mask, ~mask, ~mask, 2, "random")


def test_entries_of_two_hops(graph):
    """To 15%, where growing by one factor a hop gives 45% too many; a base is no hop more."""
    matrix = aggregation_matrix(NUM_NODES, graph.edge_index, "gcn")
    names = ("x", "local", "once", "twice")
    program = (
        Operator("local", "aggregate", ("x",), ("local",)),
        Operator("once", "aggregate", ("x", "local"), ("once",), {"base": True}),
        Operator("twice", "aggregate", ("once",), ("twice",)),
    )
    cycle = Cycle(
        1,
        {"setup": program},
        values={name: Value(name, "v", WIDTH, layout="csr", num_entries=(0,)) for name in names},
        spaces={"v": Space("v", (NUM_NODES,))},
        arrays=Arrays({"v": (np.arange(NUM_NODES),)}),
    )
    found = with_entries(cycle, graph, matrix, Memo()).values
    once = (matrix != 0).astype(np.float32) @ sp.csr_matrix(graph.x)
    twice = (matrix != 0).astype(np.float32) @ once
    assert found["once"].num_entries == (once.nnz,)
    assert twice.nnz < 0.9 * twice.shape[0] * WIDTH
    assert found["twice"].num_entries[0] == pytest.approx(twice.nnz, rel=0.15)


def test_of_several_sums_each_has_its_own_matrix(graph):
    """A sum over one edge has the entries of one row, whatever the others are over."""
    x = sp.random(NUM_NODES, WIDTH, 0.05, "csr", np.float32, rng=np.random.default_rng(1))
    graph = replace(graph, x=x)
    one = sp.csr_matrix(([1.0], ([3], [int(np.diff(x.indptr).argmax())])), (NUM_NODES, NUM_NODES))
    every = sp.csr_matrix(np.ones((NUM_NODES, NUM_NODES), np.float32))
    program = tuple(Operator(name, "aggregate", ("x",), (name,), {"block": f"{name}@0"}) for name in ("one", "every"))
    cycle = Cycle(
        1,
        {"setup": program},
        values={name: Value(name, "v", WIDTH, layout="csr", num_entries=(0,)) for name in ("x", "one", "every")},
        spaces={"v": Space("v", (NUM_NODES,))},
        arrays=Arrays({"v": (np.arange(NUM_NODES),)}),
    )
    found = with_entries(cycle, graph, every, Memo(), {"one": one, "every": every}).values
    assert found["one"].num_entries == (int(np.diff(x.indptr).max()),)
    assert found["every"].num_entries == (NUM_NODES * len(np.unique(x.indices)),)
