"""Mini-batches from statistics: how large a sampled batch is.

Neighbours are drawn as the project's loader draws them: of every vertex that a hop found anew, at most a fan-out of its
neighbours, without replacement. A vertex of degree d has been found after T draws in all with probability
1 - (1 - B / N) exp(-d T / E), for a draw along an edge finds a vertex in proportion to its degree. So hop by hop the
expected rows and edges follow from the degrees. Locality is left out: neighbours of one batch overlap more in graphs
with clusters, so batches come out too large there.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from gnnplan.planner.program.cycle import Cycle
from gnnplan.planner.program.parts import Block, Space
from gnnplan.planner.program.resized import Sizes, resized
from gnnplan.planner.statistics.contract import Statistics
from gnnplan.planner.statistics.degrees import degrees_of


@dataclass(frozen=True)
class BatchSizes:
    """Expected sizes of a batch, hop by hop from its training vertices on.

    Args:
        rows: distinct vertices after each hop, the batch itself first: one more than there are hops.
        edges: drawn up to each hop.
        is_trimmed: each layer computes only what later ones need, as systems on DGL's blocks do. Here, as in PyG, each
            computes all rows of a batch.
    """

    rows: tuple[int, ...]
    edges: tuple[int, ...]
    is_trimmed: bool = False

    def rows_at(self, level: int) -> int:
        """Rows that a model has `level` aggregations above the features."""
        return self.rows[max(0, len(self.edges) - level) if self.is_trimmed else -1]

    def edges_from(self, level: int) -> int:
        """Edges that are summed over to come from a level to the next."""
        return self.edges[len(self.edges) - level - 1 if self.is_trimmed else -1]


def batch_sizes(of: Statistics, batch_size: int, fan_outs: Sequence[int], *, is_trimmed: bool = False) -> BatchSizes:
    """Expected sizes.

    Args:
        fan_outs: neighbours drawn a hop, -1 all of them.
        is_trimmed: as `BatchSizes` has it.
    """
    degrees, counts = degrees_of(of)
    first = min(1.0, batch_size / of.num_nodes)
    found, new, drawn = np.full_like(counts, first), counts * first, 0.0
    rows, edges = [batch_size], []
    for fan_out in fan_outs:
        drawn += float(new @ (degrees if fan_out < 0 else np.minimum(degrees, fan_out)))
        after = 1 - (1 - first) * np.exp(-degrees * drawn / max(of.num_edges, 1))
        new, found = counts * np.maximum(after - found, 0), np.maximum(after, found)
        rows.append(round(float(counts @ found)))
        edges.append(round(drawn))
    return BatchSizes(tuple(rows), tuple(edges), is_trimmed)


def batch_program(cycle: Cycle, sizes: BatchSizes, *, with_loops: bool) -> Cycle:
    """The full-batch program of one worker with the sizes of a batch: a training step.

    Args:
        cycle: of one worker that has all rows.
        with_loops: the model's matrix has an entry of every row itself.
    """

    def rows(space: Space) -> Sizes | None:
        if space.level is not None:
            return (sizes.rows_at(space.level),)
        return (sizes.rows[0],) if space.name in _SPLITS else None

    def edges(block: Block) -> Sizes:
        level = cycle.spaces[block.column].level
        assert level is not None, block.name
        return (sizes.edges_from(level) + sizes.rows_at(level + 1) * with_loops,)

    return resized(cycle, rows, edges, lambda route: route.counts)


_SPLITS = frozenset({"train", "val", "test"})
