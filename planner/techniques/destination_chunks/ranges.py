"""Which rows a chunk has, and what is cut to them: blocks, indexes and routes.

A chunk has a contiguous range of every worker's own rows. Where a space has the rows of several workers, one owner's
behind the other's, a chunk has a range of each owner's. So every worker gets as much of a chunk that is transposed
back.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from gnnplan.planner.program.arrays import Arrays
from gnnplan.planner.program.cuts import Part, of_rows
from gnnplan.planner.program.cycle import Cycle
from gnnplan.planner.program.emitter import Emitter
from gnnplan.planner.program.parts import Index, Route, Space

Cuts = dict[tuple, tuple[Part, Part]]
"""Rows of matrices, by the identities of what they were cut from, which stands beside them."""


@dataclass
class Ranges:
    """Cuts what belongs to a space of rows to the chunks, once each.

    Args:
        num_chunks: of every space.
        cuts: made before, to which those are added that are made here.
    """

    emitter: Emitter
    num_chunks: int
    cuts: Cuts

    def __post_init__(self) -> None:
        self._owned_by = {
            route.target: route.counts
            for route in self.emitter.cycle.routes.values()
            if _leads_to_all_rows(self.emitter.cycle, route)
        }

    def space(self, name: str, chunk: int) -> str:
        """The space of a chunk's rows; an index of its name takes them out of all rows."""
        part, cycle = f"{name}[{chunk}/{self.num_chunks}]", self.emitter.cycle
        if part not in cycle.spaces:
            rows = [self._rows(name, worker, chunk) for worker in cycle.workers]
            ids = _of_rows(cycle.arrays, name, rows)
            self.emitter.add_space(Space(part, tuple(map(len, rows))), ids)
            is_view = all(len(each) == 0 or each[-1] - each[0] + 1 == len(each) for each in rows)
            self.emitter.add_index(Index(part, name, part, is_view=is_view), rows)
        return part

    def _rows(self, name: str, worker: int, chunk: int) -> np.ndarray:
        sizes = self.emitter.cycle.spaces[name].sizes
        owned = self._owned_by[name][:, worker] if name in self._owned_by else [sizes[worker]]
        starts = np.cumsum([0, *owned[:-1]])
        parts = [
            np.arange(start + size * chunk // self.num_chunks, start + size * (chunk + 1) // self.num_chunks)
            for start, size in zip(starts, owned, strict=True)
        ]
        return np.concatenate(parts).astype(np.int64)

    def block(self, name: str, chunk: int) -> str:
        """A block's rows of a chunk, with all of its columns."""
        part, cycle = f"{name}[{chunk}/{self.num_chunks}]", self.emitter.cycle
        if part not in cycle.blocks:
            assert cycle.arrays
            block, whole = cycle.blocks[name], cycle.arrays.matrices[name]
            space = self.space(block.row, chunk)
            rows = cycle.arrays.rows[space]
            matrices = [self._cut(matrix, each) for matrix, each in zip(whole, rows, strict=True)]
            edges = tuple(matrix.nnz for matrix in matrices)
            self.emitter.add_block(replace(block, name=part, row=space, num_edges=edges), matrices)
        return part

    def _cut(self, matrix: Part, rows: np.ndarray) -> Part:
        key = (id(matrix), rows.tobytes())
        if key not in self.cuts:
            self.cuts[key] = matrix, of_rows(matrix, rows)  # both are kept: no other matrix is taken for this one
        return self.cuts[key][1]

    def route(self, name: str, chunk: int) -> str:
        """The rows of a chunk on a route between workers' own rows and all rows."""
        part, cycle = f"{name}[{chunk}/{self.num_chunks}]", self.emitter.cycle
        if part not in cycle.routes:
            route = cycle.routes[name]
            own, whole = self.space(route.source, chunk), self.space(route.target, chunk)
            sizes = np.array(cycle.spaces[own].sizes)
            self.emitter.add_route(Route(part, own, whole, np.where(route.counts > 0, sizes[:, None], 0)))
        return part


def _leads_to_all_rows(cycle: Cycle, route: Route) -> bool:
    """Whether every worker gets all rows of itself and of some others, or of all, with the first worker's first."""
    rows = np.array(cycle.spaces[route.source].sizes)
    is_all = (route.counts == rows[:, None]) | (route.counts == 0)
    return bool(is_all.all() and (route.counts.diagonal() == rows).all())


def _of_rows(arrays: Arrays | None, space: str, rows: Sequence[np.ndarray]) -> list[np.ndarray] | None:
    """The vertices of some rows of a space."""
    if arrays is None or space not in arrays.ids:
        return None
    return [ids[each] for ids, each in zip(arrays.ids[space], rows, strict=True)]
