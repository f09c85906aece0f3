"""A forward program shared out by rows: from one logical worker to many.

It knows no other technique. Which rows an operator needs is said by its kind; where a row comes from that a worker
does not own is said by the table of labels.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from gnnplan.planner.program.arrays import Arrays
from gnnplan.planner.program.cutter import Cutter
from gnnplan.planner.program.cycle import Cycle
from gnnplan.planner.program.emitter import Emitter
from gnnplan.planner.program.kinds import KINDS, Need
from gnnplan.planner.program.labels import TRAVELLING, Label
from gnnplan.planner.program.parts import Index, Operator, Route, Space
from gnnplan.planner.techniques.halo_exchange.together import blocks_together


def share_rows(cycle: Cycle, cutter: Cutter) -> Cycle:
    """The cycle with its vertices shared out.

    Args:
        cycle: forward programs of one logical worker, with arrays.
        cutter: of the partition, under labels that say where halo rows come from.
    """
    return _RowLayout(cycle, cutter).run()


class _RowLayout:
    def __init__(self, cycle: Cycle, cutter: Cutter) -> None:
        assert cycle.arrays
        assert cycle.num_workers == 1, "shared out already"
        self.old, self.old_arrays, self.cut = cycle, cycle.arrays, cutter
        self.emitter = Emitter(
            replace(
                cycle,
                num_workers=cutter.num_workers,
                spaces={name: _on_all(space, cutter.num_workers) for name, space in cycle.spaces.items()},
                arrays=Arrays(entries=cycle.arrays.entries),
            )
        )
        self._ready: dict[tuple[str, str], str] = {}
        self._made_by: dict[str, Operator] = {}
        self._gathers: set[tuple[str, str]] = set()
        self._together = blocks_together(cycle)
        self._share_vertices()

    def run(self) -> Cycle:
        for name, program in self.old.programs.items():
            self._ready = {}
            self._made_by = {written: op for op in program for written in op.writes}
            self._gathers = {(value, op.attributes["block"]) for op in program for value in KINDS[op.kind].gathered(op)}
            self.emitter.begin()
            for op in program:
                reads = tuple(self._read(op, i) for i in range(len(op.reads)))
                if KINDS[op.kind].holds == "diagonal":
                    self._cut_diagonals(op)
                self.emitter.append(replace(op, reads=reads))
            self.emitter.end(name)
        return self.emitter.cycle

    def _share_vertices(self) -> None:
        """Every level's own and made rows; inputs and indexes on them."""
        old = self.old
        for name, space in old.spaces.items():
            if space.level is not None:
                ids = self.cut.held(space.level)
                self._add_space(name, ids, level=space.level)
        for index in old.indexes.values():
            self._share_index(index)
        for value in old.values.values():
            if value.role == "input" and value.layout == "csr":
                ids = self.emitter.cycle.arrays.ids[value.space]  # type: ignore[union-attr]
                self.emitter.add_value(replace(value, num_entries=self._entries(value.name, ids)))

    def _add_space(self, name: str, ids: Sequence[np.ndarray], *, level: int | None = None) -> str:
        own = tuple(len(each) for each in self.cut.owned) if level is not None else ()
        return self.emitter.add_space(Space(name, tuple(map(len, ids)), own, level), ids)

    def _share_index(self, index: Index) -> None:
        """Of the rows of an index each worker has its own vertices'."""
        level = self.old.spaces[index.source].level
        assert level is not None
        chosen = np.zeros(len(self.cut.part), bool)
        chosen[self.old_arrays.rows[index.name][0]] = True
        rows = [np.flatnonzero(chosen[ids]) for ids in self.cut.owned]
        self.emitter.add_space(Space(index.target, tuple(map(len, rows))))
        self.emitter.add_index(index, rows)

    def _entries(self, name: str, ids: Sequence[np.ndarray]) -> tuple[int, ...]:
        # What is made of sparse rows is taken to be as sparse as they are; only the setup moves it.
        per_vertex = self.old_arrays.entries.get(name, next(iter(self.old_arrays.entries.values())))
        return tuple(int(per_vertex[each].sum()) for each in ids)

    def _read(self, op: Operator, i: int) -> str:
        """The name under which the rows that a read needs are on every worker."""
        name, need = op.reads[i], KINDS[op.kind].need(i)
        space = self.old.values[name].space
        if not self.old.spaces[space].is_of_vertices:
            return name
        if need is Need.COLUMN:
            got = self._gathered(name, op.attributes["block"])  # also of a lower level than the block's columns
            for beside in op.attributes.get("blocks", ()):  # of the same rows and columns
                self._cut(beside, self.emitter.cycle.values[got].space)
            return got
        if need is Need.BLOCK_ROW:
            return self._rows(name, self.old.blocks[op.attributes["block"]].row)
        if need is Need.OWN:
            return self._rows(name, self._own_space(space))
        assert need is Need.ROW, (op, need)
        return self._rows(name, self.old.values[op.writes[0]].space)

    def _own_space(self, space: str) -> str:
        level = self.old.spaces[space].level
        assert level is not None
        if self.cut.makes_none(level):
            return space
        return self._add_space("own", self.cut.owned, level=level)

    def _gathered(self, name: str, block: str) -> str:
        """All rows that a block gathers but the dropped ones, as one value; cuts the block to them."""
        key = (name, f"gathered by {self._together[block][0]}")
        if key not in self._ready:
            self._ready[key] = self._remade(name, block) or self._fetched_for(name, block)
        self._cut(block, self.emitter.cycle.values[self._ready[key]].space)
        return self._ready[key]

    def _remade(self, name: str, block: str) -> str | None:
        """What is made row by row of rows that are gathered anyway is made of these, and need not travel."""
        op = self._made_row_by_row(name)
        if op is None or (op.reads[0], block) not in self._gathers or self._is_of_several_levels(name):
            return None
        rows = self._gathered(op.reads[0], block)
        if rows == op.reads[0]:
            return None
        return self.emitter.emit(op.kind, rows, *op.reads[1:], key=f"{op.key}/gathered", **op.attributes)

    def _is_of_several_levels(self, name: str) -> bool:
        """Whether blocks of several levels gather it: then it may be fetched once for all of them."""
        blocks = (self.old.blocks[block] for value, block in self._gathers if value == name)
        return len({self.old.spaces[block.column].level for block in blocks}) > 1

    def _made_row_by_row(self, name: str) -> Operator | None:
        """What makes each row of a value of one row of its first read, and of no other rows of vertices."""
        op = self._made_by.get(name)
        if op is None or not KINDS[op.kind].by_row:
            return None
        others = (self.old.spaces[self.old.values[read].space] for read in op.reads[1:])
        return None if any(space.is_of_vertices for space in others) else op

    def _fetched_for(self, name: str, block: str) -> str:
        old = self.old.blocks[block]
        name = self._rows(name, old.column)
        level, row_level = (self.old.spaces[space].level for space in (old.column, old.row))
        assert level is not None
        assert row_level is not None
        together = self._together[block]
        matrices = [self.old_arrays.matrices[each][0] for each in together]
        needed = self.cut.gathered_by_any(matrices, level, row_level)
        return self._fetch(name, level, together[0], needed)

    def _cut(self, block: str, column: str) -> None:
        """A block over the rows that are there, unless it is cut so already."""
        arrays, old = self.emitter.cycle.arrays, self.old.blocks[block]
        assert arrays
        if self.emitter.cycle.blocks[block].column == column and block in arrays.matrices:
            return
        row_level = self.old.spaces[old.row].level
        assert row_level is not None
        matrices = self.cut.matrices(self.old_arrays.matrices[block][0], row_level, arrays.ids[column])
        self.emitter.add_block(old.part(block, tuple(m.nnz for m in matrices), column=column), matrices)

    def _cut_diagonals(self, op: Operator) -> None:
        """Of diagonal blocks a worker has its own rows' entries, also where nothing is gathered over them."""
        arrays = self.emitter.cycle.arrays
        assert arrays
        for block in op.attributes.get("blocks", ()):
            if block not in arrays.matrices:
                self._cut(block, self.old.blocks[block].column)

    def _rows(self, name: str, target: str) -> str:
        """A value's rows as those of another space, in its order: roots, residuals, own rows alone."""
        space = self.old.values[name].space
        arrays = self.emitter.cycle.arrays
        assert arrays
        wanted = arrays.ids[target]
        if space == target or all(map(np.array_equal, arrays.ids[space], wanted)):
            return name
        key = (name, target)
        if key not in self._ready:
            self._ready[key] = self._remade_as(name, target) or self._fetched_as(name, target)
        return self._ready[key]

    def _remade_as(self, name: str, target: str) -> str | None:
        """As `_remade`, where a block gathers all inputs of these rows anyway: inputs never change."""
        op, arrays = self._made_row_by_row(name), self.emitter.cycle.arrays
        assert arrays
        if op is None or self.old.values[op.reads[0]].role != "input":
            return None
        for block in sorted(block for value, block in self._gathers if value == op.reads[0]):
            got = self._gathered(op.reads[0], block)
            there = arrays.ids[self.emitter.cycle.values[got].space]
            if all(np.isin(ids, have).all() for ids, have in zip(arrays.ids[target], there, strict=True)):
                if (got, target) not in self._ready:
                    self._ready[got, target] = self._taken(got, target, f"{op.reads[0]}/as {target}")
                rows = self._ready[got, target]
                return self.emitter.emit(op.kind, rows, *op.reads[1:], key=f"{op.key}/as {target}", **op.attributes)
        return None

    def _fetched_as(self, name: str, target: str) -> str:
        space = self.old.values[name].space
        level, arrays = self.old.spaces[space].level, self.emitter.cycle.arrays
        assert level is not None
        assert arrays
        got = self._fetch(name, level, f"{space}>{target}", arrays.ids[target])
        return self._taken(got, target, f"{name}/as {target}")

    def _taken(self, got: str, target: str, key: str) -> str:
        """The rows of another space, of a value that has them all."""
        source, arrays = self.emitter.cycle.values[got].space, self.emitter.cycle.arrays
        assert arrays
        rows = tuple(map(self.cut.positions, arrays.ids[source], arrays.ids[target]))
        is_view = all(np.array_equal(each, np.arange(len(each))) for each in rows)
        index = Index(f"rows {source}>{target}", source, target, is_view)
        self.emitter.add_index(index, rows)
        entries = self._entries_if_sparse(got, arrays.ids[target])
        return self.emitter.emit("take", got, key=key, index=index.name, **entries)

    def _fetch(self, name: str, level: int, what: str, needed: Sequence[np.ndarray]) -> str:
        """A value's rows, and below them those of others that are needed, by an exchange a label."""
        missing = self.cut.missing(needed, level)
        if not any(map(len, missing)):
            return name
        space = self.emitter.cycle.values[name].space
        parts, spaces = [name], [space]
        for label in TRAVELLING:
            wanted = self.cut.by_owner(missing, level, label)
            if any(map(len, wanted)):
                parts.append(self._exchanged(name, space, level, label, what, wanted))
                spaces.append(self.emitter.cycle.values[parts[-1]].space)
        return self._placed(name, what, parts, spaces)

    def _exchanged(
        self, name: str, space: str, level: int, label: Label, what: str, wanted: Sequence[np.ndarray]
    ) -> str:
        word = "" if label is Label.SENT else f" {label.name.lower()}"
        tag, key = f"{what}{word}", f"{name}{word.replace(' ', '/')}"
        sent, rows, counts = self.cut.senders(wanted)
        self._add_space(f"sent {tag}", sent)
        self._add_space(f"received {tag}", wanted)
        self.emitter.add_index(Index(f"pack {tag}", space, f"sent {tag}"), rows)
        self.emitter.add_route(Route(f"route {tag}", f"sent {tag}", f"received {tag}", counts))
        pack: dict[str, Any] = {"index": f"pack {tag}"} | self._entries_if_sparse(name, sent)
        exchange: dict[str, Any] = {"route": f"route {tag}"} | self._entries_if_sparse(name, wanted)
        packed = self.emitter.emit("take", name, key=f"{key}/pack", **pack)
        return self.emitter.emit(
            "exchange", packed, key=f"{key}/exchange", level=level, label=label.name.lower(), **exchange
        )

    def _placed(self, name: str, what: str, parts: list[str], spaces: list[str]) -> str:
        arrays = self.emitter.cycle.arrays
        assert arrays
        ids = [np.concatenate(each) for each in zip(*(arrays.ids[space] for space in spaces), strict=True)]
        inner = self._add_space(f"with halo {what}", ids)
        starts = np.cumsum([[0] * len(ids), *([len(each) for each in arrays.ids[space]] for space in spaces)], axis=0)
        indexes = []
        for number, space in enumerate(spaces):
            rows = [np.arange(a, b) for a, b in zip(starts[number], starts[number + 1], strict=True)]
            indexes.append(self.emitter.add_index(Index(f"{inner}, part {number}", inner, space, True), rows))
        entries = self._entries_if_sparse(name, ids)
        return self.emitter.emit("place", *parts, key=f"{name}/place", parts=tuple(indexes), **entries)

    def _entries_if_sparse(self, name: str, ids: Sequence[np.ndarray]) -> dict[str, Any]:
        if self.emitter.cycle.values[name].layout != "csr":
            return {}
        return {"entries": self._entries(name, ids)}


def _on_all(space: Space, num_workers: int) -> Space:
    """A space that is the same on every worker; those of vertices are shared out afterwards."""
    return replace(space, sizes=space.sizes[:1] * num_workers)
