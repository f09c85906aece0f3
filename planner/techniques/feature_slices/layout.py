"""A forward program shared out by columns for sums over edges, and by rows for all else.

Values are made where their operator runs, and turned into the other form only where an operator reads that one. Which
form an operator needs follows from its kind: what is gathered over a block is needed in columns, for a sum over edges
is a sum in every column by itself; but what makes values on edges, such as attention's scores, needs whole rows of all
vertices. What else is by column has the form that `columns_of` says. Everything else needs the worker's own rows.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np

from gnnplan.planner.program.arrays import Arrays
from gnnplan.planner.program.cycle import Cycle
from gnnplan.planner.program.emitter import Emitter
from gnnplan.planner.program.kinds import KINDS
from gnnplan.planner.program.parts import Block, Index, Operator, Route, Space
from gnnplan.planner.techniques.feature_slices.forms import WITHOUT_BASE, columns_of, is_sum
from gnnplan.planner.techniques.feature_slices.slices import Bounds, contiguous


def share_columns(cycle: Cycle, shares: Sequence[float]) -> Cycle:
    """The cycle with rows and columns shared out.

    Args:
        cycle: forward programs of one logical worker, with arrays.
        shares: of rows and of columns, by worker.
    """
    return cycle if len(shares) == 1 else _SliceLayout(cycle, shares).run()


class _SliceLayout:
    """Writes the programs anew.

    `_forms` says under which name a value of the old program is there in another form than it was made in; `_slices_of`
    has the values that were made in columns, with the heads that their columns are of.
    """

    def __init__(self, cycle: Cycle, shares: Sequence[float]) -> None:
        assert cycle.arrays
        assert cycle.num_workers == 1, "shared out already"
        self.old, self.old_arrays, self.shares, size = cycle, cycle.arrays, shares, len(shares)
        spaces = {name: replace(space, sizes=space.sizes * size) for name, space in cycle.spaces.items()}
        arrays = Arrays(entries=cycle.arrays.entries)
        self.emitter = Emitter(replace(cycle, num_workers=size, spaces=spaces, arrays=arrays))
        self._forms: dict[tuple[str, str], str] = {}
        self._slices_of: dict[str, int] = {}
        self._in_columns = columns_of(cycle)
        for space in cycle.spaces.values():
            if space.is_of_vertices:
                self._share_vertices(space)
        self._share_others()

    def run(self) -> Cycle:
        for name, program in self.old.programs.items():
            self._forms, self._slices_of = {}, {}
            self.emitter.begin()
            for op in program:
                self._put(op)
            self.emitter.end(name)
        return self.emitter.cycle

    def _share_vertices(self, space: Space) -> None:
        """A level's own rows, all of its rows, and the routes between workers."""
        (num_nodes,), bounds = space.sizes, self._bounds(space.name)
        sizes, size = tuple(stop - start for start, stop in bounds), len(bounds)
        everything, counts = np.arange(num_nodes), np.repeat(sizes, size).reshape(size, size)
        own, whole, sent = space.name, f"all {space.name}", f"sent {space.name}"
        self.emitter.add_space(Space(own, sizes, sizes, space.level), [everything[a:b] for a, b in bounds])
        self.emitter.add_space(Space(whole, (num_nodes,) * size), (everything,) * size)
        self.emitter.add_space(Space(sent, tuple(count * size for count in sizes)))
        self.emitter.add_index(Index(sent, own, sent), [np.tile(np.arange(count), size) for count in sizes])
        self.emitter.add_route(Route(f"transpose {own}", own, whole, counts))
        self.emitter.add_route(Route(f"share {own}", sent, whole, counts))

    def _share_others(self) -> None:
        """Blocks are the graph's own on every worker; of indexes and inputs each worker has its rows'."""
        size = len(self.shares)
        for name, block in self.old.blocks.items():
            shape = Block(name, f"all {block.row}", f"all {block.column}", block.num_edges * size)
            self.emitter.add_block(shape, self.old_arrays.matrices[name] * size)
        for name, index in self.old.indexes.items():
            chosen, bounds = self.old_arrays.rows[name][0], self._bounds(index.source)
            rows = [chosen[(chosen >= start) & (chosen < stop)] - start for start, stop in bounds]
            self.emitter.add_space(Space(index.target, tuple(map(len, rows))))
            self.emitter.add_index(index, rows)
        for value in self.old.values.values():
            if value.role == "input" and value.layout == "csr":
                per_vertex = self.old_arrays.entries[value.name]
                entries = tuple(int(per_vertex[start:stop].sum()) for start, stop in self._bounds(value.space))
                self.emitter.add_value(replace(value, num_entries=entries))

    def _bounds(self, space: str) -> Bounds:
        return contiguous(self.old.spaces[space].sizes[0], self.shares)

    def _is_of_vertices(self, name: str) -> bool:
        return self.old.spaces[self.old.values[name].space].is_of_vertices

    def _put(self, op: Operator) -> None:
        heads = self._in_columns.get(op.writes[0])
        if heads is not None:
            assert KINDS[op.kind].by_column, op.kind
            self._append(op, partial(self._columns, heads=heads))
            self._slices_of[op.writes[0]] = heads
        elif is_sum(self.old, op):
            self._with_base_in_rows(op)
        elif "block" in op.attributes:
            self._append(op, self._whole)
        else:
            self._append(op, self._rows)

    def _append(self, op: Operator, form: Callable[[str], str]) -> None:
        """An operator that reads its values of vertices in a form."""
        reads = (form(name) if self._is_of_vertices(name) else name for name in op.reads)
        self.emitter.append(replace(op, reads=tuple(reads)))

    def _with_base_in_rows(self, op: Operator) -> None:
        """Only rows of the sum are asked for, so its base is added to these, and need not be turned itself."""
        heads, base = self._in_columns[op.writes[0] + WITHOUT_BASE], self._rows(op.reads[-1])
        reads = (self._columns(name, heads) if self._is_of_vertices(name) else name for name in op.reads[:-1])
        attributes = {name: value for name, value in op.attributes.items() if name != "base"}
        columns = self.emitter.emit(op.kind, *reads, key=op.key, **attributes)
        summed = self._turned_back(columns, self.old.values[op.writes[0]].space, heads)
        self.emitter.emit("add", summed, base, key=f"{op.key}/add", writes=op.writes, factors=(1, 1))

    def _rows(self, name: str) -> str:
        """A value as each worker's own rows."""
        if name not in self._slices_of:
            return name
        if (name, "rows") not in self._forms:
            space, heads = self.old.values[name].space, self._slices_of[name]
            self._forms[name, "rows"] = self._turned_back(name, space, heads)
        return self._forms[name, "rows"]

    def _columns(self, name: str, heads: int) -> str:
        """A value as all rows of each worker's columns."""
        if self._slices_of.get(name) == heads:
            return name
        form = f"columns of {heads} heads"
        if (name, form) not in self._forms:
            packed, moved = self._attributes(name, self.old.values[name].space, heads)
            of_rows = self.emitter.emit("pack_columns", self._rows(name), key=f"{name}/pack", **packed)
            self._forms[name, form] = self.emitter.emit(
                "transpose", of_rows, key=f"{name}/columns", back=False, **moved
            )
        return self._forms[name, form]

    def _turned_back(self, name: str, space: str, heads: int) -> str:
        packed, moved = self._attributes(name, space, heads)
        of_rows = self.emitter.emit("transpose", name, key=f"{name}/rows", back=True, **moved)
        return self.emitter.emit("unpack_columns", of_rows, key=f"{name}/unpack", **packed)

    def _attributes(self, name: str, space: str, heads: int) -> tuple[dict[str, Any], dict[str, Any]]:
        """Of an operator that packs or unpacks a value, and of one that transposes it."""
        columns = contiguous(self.emitter.cycle.values[name].width, self.shares, heads)
        return {"columns": columns, "heads": heads}, {"columns": columns, "route": f"transpose {space}"}

    def _whole(self, name: str) -> str:
        """A value as whole rows of all vertices, on every worker."""
        if (name, "whole") not in self._forms:
            rows, space = self._rows(name), self.old.values[name].space
            copies = self.emitter.emit("take", rows, key=f"{name}/copies", index=f"sent {space}")
            self._forms[name, "whole"] = self.emitter.emit(
                "exchange", copies, key=f"{name}/share", route=f"share {space}"
            )
        return self._forms[name, "whole"]
