"""A candidate's programs with smaller halos, by sizes alone: nothing is cut again."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from gnnplan.planner.program.cuts import column_counts
from gnnplan.planner.program.cycle import Cycle
from gnnplan.planner.program.parts import Space
from gnnplan.planner.techniques.pruning.cut_edges import CutEdges

_Pairs = tuple[np.ndarray, ...]
"""By worker, the pairs of those rows of a space that belong to one."""
_Edges = tuple[tuple[np.ndarray, np.ndarray], ...]
"""By worker, pairs whose rows a block gathers, and the entries of each."""


@dataclass(frozen=True)
class HaloSizes:
    """What of a cycle's sizes comes of which (worker, halo vertex) pairs.

    Args:
        received: pairs of every space that has halo rows, by the worker that has them.
        sent: pairs of every space of rows that are on their way, by the worker that sends them.
        edges: of every block.
    """

    cycle: Cycle
    received: dict[str, _Pairs]
    sent: dict[str, _Pairs]
    edges: dict[str, _Edges]

    @classmethod
    def of(cls, cycle: Cycle, cut: CutEdges) -> HaloSizes:
        """Of a cycle with arrays, laid out along the partition that was cut."""
        arrays = cycle.arrays
        assert arrays
        counts = {route.source: route.counts for route in cycle.routes.values()}
        received: dict[int, _Pairs] = {}  # by the identity of ids, which several spaces share
        edges: dict[int, _Edges] = {}
        for name, ids in arrays.ids.items():
            if name not in counts and id(ids) not in received:
                received[id(ids)] = _received_pairs(cut, ids)
        for name, matrices in arrays.matrices.items():
            if id(matrices) not in edges:
                edges[id(matrices)] = _edges_of(cut, matrices, arrays.ids[cycle.blocks[name].column])
        return cls(
            cycle,
            {name: received[id(ids)] for name, ids in arrays.ids.items() if name not in counts},
            {name: _sent_pairs(cut, arrays.ids[name], each) for name, each in counts.items()},
            {name: edges[id(matrices)] for name, matrices in arrays.matrices.items()},
        )

    def without(self, *, received: np.ndarray, sent: np.ndarray) -> Cycle:
        """The cycle without arrays, and without the rows and entries of some pairs; routes stay as they are.

        Args:
            received: bool [K], the pairs that their workers lack.
            sent: bool [K], those that their owners do not send.
        """
        cycle, spaces = self.cycle, dict(self.cycle.spaces)
        for gone, rows in ((received, self.received), (sent, self.sent)):
            spaces |= {name: _smaller(spaces[name], pairs, gone) for name, pairs in rows.items() if name in spaces}
        blocks = dict(cycle.blocks)
        for name, edges in self.edges.items():
            lost = [int(num[received[pairs]].sum()) for pairs, num in edges]
            kept = tuple(int(a) - b for a, b in zip(blocks[name].num_edges, lost, strict=True))
            blocks[name] = replace(blocks[name], num_edges=kept)
            if blocks[name].edges in spaces:
                spaces[blocks[name].edges] = replace(spaces[blocks[name].edges], sizes=kept)
        return replace(cycle, spaces=spaces, blocks=blocks, arrays=None)


def _received_pairs(cut: CutEdges, ids: Sequence[np.ndarray]) -> _Pairs:
    return tuple(_known(cut.pairs_of(worker, each)) for worker, each in enumerate(ids))


def _sent_pairs(cut: CutEdges, ids: Sequence[np.ndarray], counts: np.ndarray) -> _Pairs:
    """Rows to send stand in the order of their receivers."""
    receivers = np.arange(len(ids))
    return tuple(_known(cut.pairs_of(np.repeat(receivers, to), each)) for each, to in zip(ids, counts, strict=True))


def _edges_of(cut: CutEdges, matrices: Sequence, columns: Sequence[np.ndarray]) -> _Edges:
    found = []
    for worker, (matrix, ids) in enumerate(zip(matrices, columns, strict=True)):
        pairs, num = cut.pairs_of(worker, ids), column_counts(matrix)
        found.append((pairs[pairs >= 0], num[pairs >= 0]))
    return tuple(found)


def _known(pairs: np.ndarray) -> np.ndarray:
    return pairs[pairs >= 0]


def _smaller(space: Space, pairs: _Pairs, gone: np.ndarray) -> Space:
    lost = (int(gone[each].sum()) for each in pairs)
    return replace(space, sizes=tuple(size - less for size, less in zip(space.sizes, lost, strict=True)))
