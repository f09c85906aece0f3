"""Operators over rows that were put together, in one part for each place they came from.

A sum over local and halo rows becomes the sum over local rows, to which that over halo rows is added: nothing is
copied together, and the first can run while the second's rows travel. A softmax stays one, over the scores of all
parts. The pass knows `place`, and of other kinds what their rows say.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

import numpy as np

from gnnplan.planner.program.cuts import Part, over_columns
from gnnplan.planner.program.cycle import Cycle
from gnnplan.planner.program.dead import without_dead
from gnnplan.planner.program.emitter import Emitter
from gnnplan.planner.program.kinds import KINDS
from gnnplan.planner.program.parts import Operator

Cuts = dict[tuple[int, tuple[tuple[int, int], ...]], tuple]
"""Blocks over parts of their columns, by the identities of what they were cut from, which stands beside them."""


def split_placed(cycle: Cycle, cuts: Cuts | None = None) -> Cycle:
    """The cycle with operators split that gather rows from a `place`, and without the places that nobody reads.

    Args:
        cuts: made before, to which those are added that are made here (None: none).
    """
    emitter, cuts = Emitter(cycle), {} if cuts is None else cuts
    for name, program in cycle.programs.items():
        emitter.begin()
        split = _Split(emitter, cuts)
        for op in program:
            split.put(op)
        emitter.end(name)
    return without_dead(emitter.cycle)


class _Split:
    """Splits one program.

    `_parts` are the pieces of values that were placed, with the indexes that part them; `_edges` those of values on
    edges, with the blocks they lie on.
    """

    def __init__(self, emitter: Emitter, cuts: Cuts) -> None:
        self._emitter, self._cuts = emitter, cuts
        self._parts: dict[str, tuple[tuple[str, ...], tuple[str, ...]]] = {}
        self._edges: dict[str, tuple[tuple[str, ...], tuple[str, ...]]] = {}

    def put(self, op: Operator) -> None:
        if op.kind == "place":
            self._parts[op.writes[0]] = (op.reads, op.attributes["parts"])
        elif self._is_by_row(op):
            self._by_row(op)
        elif "block" in op.attributes and self._gathers_parts(op):
            self._over_block(op)
            return
        elif "blocks" in op.attributes and any(name in self._edges for name in op.reads):
            self._over_edges(op)
            return
        self._emitter.append(op)

    def _is_by_row(self, op: Operator) -> bool:
        cycle = self._emitter.cycle
        rows = [name for name in op.reads if not cycle.spaces[cycle.values[name].space].is_of_parameters]
        return KINDS[op.kind].by_row and len(rows) == 1 and op.reads[0] in self._parts

    def _gathers_parts(self, op: Operator) -> bool:
        kind = KINDS[op.kind]
        return not kind.is_whole and any(name in self._parts for name in kind.gathered(op))

    def _by_row(self, op: Operator) -> None:
        """A piece for each part; the whole is kept for who asks for it."""
        values, indexes = self._parts[op.reads[0]]
        made = (
            self._emitter.emit(op.kind, part, *op.reads[1:], key=f"{op.key}/{_word(i)}", **op.attributes)
            for i, part in enumerate(values)
        )
        self._parts[op.writes[0]] = (tuple(made), indexes)

    def _over_block(self, op: Operator) -> None:
        (gathered,) = KINDS[op.kind].gathered(op)
        values, indexes = self._parts[gathered]
        blocks = tuple(self._cut(op.attributes["block"], index) for index in indexes)
        on_rows = self._emitter.cycle.blocks[blocks[0]].row
        if KINDS[op.kind].takes_base:
            self._sum(op, gathered, values, blocks)
            return
        written = tuple(
            self._emitter.emit(
                op.kind, *self._reads(op, gathered, i, part), key=f"{op.key}/{_word(i)}", **self._on(op, block)
            )
            for i, (part, block) in enumerate(zip(values, blocks, strict=True))
        )
        assert self._emitter.cycle.values[written[0]].space != on_rows, f"{op.key}: only sums can be split"
        self._edges[op.writes[0]] = (written, blocks)

    def _sum(self, op: Operator, gathered: str, values: tuple[str, ...], blocks: tuple[str, ...]) -> None:
        so_far = op.reads[-1:] if op.has_base else ()
        for i, (part, block) in enumerate(zip(values, blocks, strict=True)):
            reads = self._reads(op, gathered, i, part)
            attributes = self._on(op, block) | ({"base": True} if so_far else {})
            is_last = i == len(values) - 1
            so_far = self._emitter.emit_all(
                op.kind,
                *reads,
                *so_far,
                key=f"{op.key}/{_word(i)}",
                writes=op.writes if is_last else (),
                **attributes,
            )

    def _reads(self, op: Operator, gathered: str, i: int, part: str) -> list[str]:
        """What a piece reads: its part of the rows, its part of values on edges, all else as it is."""
        reads = op.reads[:-1] if op.has_base else op.reads
        return [part if name == gathered else self._edges.get(name, ((name,) * (i + 1), ()))[0][i] for name in reads]

    @staticmethod
    def _on(op: Operator, block: str) -> dict:
        return {**op.attributes, "block": block, "base": False}

    def _over_edges(self, op: Operator) -> None:
        """One operator over the edges of all blocks, those in parts as their parts.

        Where it writes a value a block, those of a block in parts stand for it from now on.
        """
        of_each = [self._edges.get(name, ((name,), (block,))) for name, block in self._on_blocks(op)]
        reads = [part for parts, _ in of_each for part in parts]
        attributes = {**op.attributes, "blocks": tuple(block for _, blocks in of_each for block in blocks)}
        if len(op.writes) != len(of_each):
            self._emitter.append(replace(op, reads=tuple(reads), attributes=attributes))
            return
        names = [_of_parts(name, len(parts)) for name, (parts, _) in zip(op.writes, of_each, strict=True)]
        self._emitter.append(replace(op, reads=tuple(reads), writes=tuple(sum(names, ())), attributes=attributes))
        for name, parts, (_, blocks) in zip(op.writes, names, of_each, strict=True):
            if len(parts) > 1:
                self._edges[name] = (parts, blocks)

    @staticmethod
    def _on_blocks(op: Operator) -> Iterable[tuple[str, str]]:
        return zip(op.reads, op.attributes["blocks"], strict=True)

    def _cut(self, name: str, index_name: str) -> str:
        """The block over one part of its columns."""
        cycle, part = self._emitter.cycle, f"{name} of {index_name}"
        if part not in cycle.blocks:
            arrays, block, index = cycle.arrays, cycle.blocks[name], cycle.indexes[index_name]
            assert arrays
            matrices = self._over_part(arrays.matrices[name], arrays.rows[index_name])
            edges = tuple(m.nnz for m in matrices)
            self._emitter.add_block(block.part(part, edges, column=index.target), matrices)
        return part

    def _over_part(self, matrices: tuple[Part, ...], rows: tuple[np.ndarray, ...]) -> tuple[Part, ...]:
        """Every worker's matrix over consecutive columns."""
        bounds = [(int(each[0]), int(each[-1]) + 1) if len(each) else (0, 0) for each in rows]
        key = (id(matrices), tuple(bounds))
        if key not in self._cuts:
            cut = tuple(over_columns(matrix, slice(*bound)) for matrix, bound in zip(matrices, bounds, strict=True))
            self._cuts[key] = (matrices, cut)  # both are kept, so that no other matrices are taken for these
        return self._cuts[key][1]


def _of_parts(name: str, count: int) -> tuple[str, ...]:
    return (name,) if count == 1 else tuple(f"{name}/{_word(part)}" for part in range(count))


def _word(part: int) -> str:
    return "local" if part == 0 else "remote" if part == 1 else f"remote{part}"
