"""What every worker has of the graph, read from its programs."""

from __future__ import annotations

from collections import defaultdict

import numpy as np

from gnnplan.planner.program.cycle import EVALUATE, Cycle
from gnnplan.planner.program.parts import Operator


def shares_of(cycle: Cycle) -> tuple[tuple[int, int, int], ...]:
    """Of every worker its own vertices, the edges that it sums over, and rows that it receives for them.

    Edges and rows are those of the aggregation that has most of them; edges that are made once count too.
    """
    own, edges, received = (np.zeros(cycle.num_workers, np.int64) for _ in range(3))
    for space in cycle.spaces.values():
        own = np.maximum(own, space.num_own or (0,) * cycle.num_workers)
    for name, program in cycle.programs.items():
        if name != EVALUATE:
            edges = np.maximum(edges, _edges(cycle, program))
            received = np.maximum(received, _received(cycle, program))
    return tuple(zip(own.tolist(), edges.tolist(), received.tolist(), strict=True))


def _edges(cycle: Cycle, program: tuple[Operator, ...]) -> np.ndarray:
    """int64 [W]: most entries of the blocks that make rows of one space, parts of a block added up."""
    blocks = {op.attributes["block"] for op in program if "block" in op.attributes and not op.attributes.get("back")}
    by_row: dict[str, np.ndarray] = defaultdict(lambda: np.zeros(cycle.num_workers, np.int64))
    for name in blocks:
        by_row[cycle.blocks[name].row] += cycle.blocks[name].num_edges
    return np.max([*by_row.values(), np.zeros(cycle.num_workers, np.int64)], axis=0)


def _received(cycle: Cycle, program: tuple[Operator, ...]) -> np.ndarray:
    """int64 [W]: most rows that arrive for one level, kept and fresh ones added up."""
    by_level: dict[int, np.ndarray] = defaultdict(lambda: np.zeros(cycle.num_workers, np.int64))
    for op in program:
        if op.kind == "exchange" and "level" in op.attributes and not op.attributes.get("back"):
            by_level[op.attributes["level"]] += cycle.routes[op.attributes["route"]].counts.sum(0)
    return np.max([*by_level.values(), np.zeros(cycle.num_workers, np.int64)], axis=0)
