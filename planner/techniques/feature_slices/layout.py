"""A forward program shared out by columns for sums over edges, and by rows for all else.

Values are made where their operator runs, and turned into the other form only where an operator reads that one. Which
form an operator needs follows from its kind: what is gathered over a block is needed in columns, for a sum over edges
is a sum in every column by itself; but what makes values on edges, such as attention's scores, needs whole rows of all
vertices. What else is by column has the form that `columns_of` says. Everything else needs the worker's own rows.

In a grid all of this happens in every group of workers by itself, with the rows that it owns. What a block gathers of
other groups' rows is sent between members that have the same columns.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np

from gnnplan.planner.program.arrays import Arrays
from gnnplan.planner.program.cycle import Cycle
from gnnplan.planner.program.emitter import Emitter
from gnnplan.planner.program.kinds import KINDS, Need
from gnnplan.planner.program.parts import Index, Operator, Route, Space
from gnnplan.planner.program.whole import blocks_of_pairs
from gnnplan.planner.techniques.feature_slices.forms import WITHOUT_BASE, columns_of, is_sum
from gnnplan.planner.techniques.feature_slices.grid import Grid
from gnnplan.planner.techniques.feature_slices.halos import Halos
from gnnplan.planner.techniques.feature_slices.only_rows import only_rows


def share_columns(cycle: Cycle, grid: Grid) -> Cycle:
    """The cycle with rows and columns shared out.

    Args:
        cycle: forward programs of one logical worker, with arrays.
        grid: of the workers.
    """
    return cycle if grid.num_workers == 1 else _SliceLayout(cycle, grid).run()


class _SliceLayout:
    """Writes the programs anew.

    `_forms` says under which name a value of the old program is there in another form than it was made in; `_slices_of`
    has the values that were made in columns, with the heads that their columns are of.
    """

    def __init__(self, cycle: Cycle, grid: Grid) -> None:
        assert cycle.arrays
        assert cycle.num_workers == 1, "shared out already"
        self.old, self.old_arrays, self.grid, size = cycle, cycle.arrays, grid, grid.num_workers
        spaces = {name: replace(space, sizes=space.sizes * size) for name, space in cycle.spaces.items()}
        arrays = Arrays(entries=cycle.arrays.entries)
        self.emitter = Emitter(replace(cycle, num_workers=size, spaces=spaces, arrays=arrays))
        self._forms: dict[tuple[str, str], str] = {}
        self._slices_of: dict[str, int] = {}
        self._in_columns = columns_of(cycle)
        for space in cycle.spaces.values():
            if space.is_of_vertices:
                self._share_vertices(space)
        self._halos = Halos(cycle, grid, self.emitter) if grid.num_groups > 1 else None
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
        """A level's own rows, all rows of the worker's group, and the routes within it."""
        rows, members = self._own_rows(space.name), self.grid.num_members
        sizes = tuple(map(len, rows))
        by_group = [np.concatenate(rows[first : first + members]) for first in range(0, len(rows), members)]
        all_rows = self.grid.on_members(by_group)
        own, whole, sent = space.name, f"all {space.name}", f"sent {space.name}"
        self.emitter.add_space(Space(own, sizes, sizes, space.level), rows)
        self.emitter.add_space(Space(whole, tuple(map(len, all_rows))), all_rows)
        self.emitter.add_space(Space(sent, tuple(count * members for count in sizes)))
        self.emitter.add_index(Index(sent, own, sent), [np.tile(np.arange(count), members) for count in sizes])
        counts = self.grid.within_groups(sizes)
        self.emitter.add_route(Route(f"transpose {own}", own, whole, counts))
        self.emitter.add_route(Route(f"share {own}", sent, whole, counts))

    def _own_rows(self, space: str) -> list[np.ndarray]:
        return self.grid.own_rows(self.old.spaces[space].sizes[0])

    def _share_others(self) -> None:
        """Blocks have all edges of the worker's group; of pairs, indexes and inputs each worker has its own rows'."""
        size = self.grid.num_workers
        of_pairs = blocks_of_pairs(self.old)
        for name, block in self.old.blocks.items():
            if self._halos:
                self._halos.share_block(block, once=name in of_pairs)
                continue
            matrices = self.old_arrays.matrices[name] * size
            if name in of_pairs:
                matrices = tuple(map(only_rows, matrices, self._own_rows(block.row)))
            edges = tuple(each.nnz for each in matrices)
            new = block.part(name, edges, row=f"all {block.row}", column=f"all {block.column}")
            self.emitter.add_block(new, matrices)
        for name, index in self.old.indexes.items():
            chosen = self.old_arrays.rows[name][0]
            rows = [np.flatnonzero(np.isin(ids, chosen)) for ids in self._own_rows(index.source)]
            self.emitter.add_space(Space(index.target, tuple(map(len, rows))))
            self.emitter.add_index(index, rows)
        for value in self.old.values.values():
            if value.role == "input" and value.layout == "csr":
                per_vertex = self.old_arrays.entries[value.name]
                entries = tuple(int(per_vertex[ids].sum()) for ids in self._own_rows(value.space))
                self.emitter.add_value(replace(value, num_entries=entries))

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
        self.emitter.append(replace(op, reads=self._reads(op, form, len(op.reads))))

    def _reads(self, op: Operator, form: Callable[[str], str], count: int) -> tuple[str, ...]:
        """An operator's first reads, in a form; of what its block gathers also the rows of other groups."""
        found = []
        for i, name in enumerate(op.reads[:count]):
            is_gathered = KINDS[op.kind].need(i) is Need.COLUMN
            of_group = form(name) if self._is_of_vertices(name) else name
            found.append(self._with_halo(of_group, op.attributes["block"]) if is_gathered else of_group)
        return tuple(found)

    def _with_halo(self, name: str, block: str) -> str:
        """A value of the group's rows, with those that a block gathers beside them."""
        if self._halos is None:
            return name
        key = (name, f"with halo of {block}")
        if key not in self._forms:
            self._forms[key] = self._halos.fetched(name, block)
        return self._forms[key]

    def _with_base_in_rows(self, op: Operator) -> None:
        """Only rows of the sum are asked for, so its base is added to these, and need not be turned itself."""
        heads, base = self._in_columns[op.writes[0] + WITHOUT_BASE], self._rows(op.reads[-1])
        reads = self._reads(op, partial(self._columns, heads=heads), len(op.reads) - 1)
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
        """A value as all rows of the group, of each worker's columns."""
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
        columns: dict[str, Any] = {"columns": self.grid.columns(self.emitter.cycle.values[name].width, heads)}
        if self.grid.num_groups > 1:
            columns["groups"] = self.grid.num_groups
        return {**columns, "heads": heads}, {**columns, "route": f"transpose {space}"}

    def _whole(self, name: str) -> str:
        """A value as whole rows of all vertices of the group, on every one of its workers."""
        if (name, "whole") not in self._forms:
            rows, space = self._rows(name), self.old.values[name].space
            copies = self.emitter.emit("take", rows, key=f"{name}/copies", index=f"sent {space}")
            self._forms[name, "whole"] = self.emitter.emit(
                "exchange", copies, key=f"{name}/share", route=f"share {space}"
            )
        return self._forms[name, "whole"]
