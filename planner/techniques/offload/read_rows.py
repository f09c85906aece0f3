"""Sums over edges that take the rows they read out of a larger value, so that nobody needs that value whole.

A block cut to some of its rows has entries in some of its columns only. These rows are taken first, and the block
counts its columns among them. Its derivative then makes gradients of these rows alone, and adds them up where they
belong.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

import numpy as np

from gnnplan.planner.program.cuts import Cut, Part, column_counts, select_columns
from gnnplan.planner.program.cycle import Cycle, Program
from gnnplan.planner.program.emitter import Emitter
from gnnplan.planner.program.kinds import KINDS
from gnnplan.planner.program.kinds.kind import Need
from gnnplan.planner.program.parts import ON_BLOCK, Index, Operator, Space

READ = "/read"
"""At the end of the name of a block over the columns that it reads, and of the space of these."""
Cuts = dict[int, tuple[Part, np.ndarray, Part]]
"""By a matrix's identity: the matrix, int64 columns that have entries, and the matrix over these."""


def take_what_is_read(cycle: Cycle, cuts: Cuts | None = None) -> Cycle:
    """The forward programs, with blocks over the rows that they read.

    Args:
        cycle: with arrays.
        cuts: made before, to which those are added that are made here (None: none).
    """
    emitter, cuts = Emitter(cycle), {} if cuts is None else cuts
    narrowed = _Narrowed(emitter, cuts)
    for name, program in cycle.programs.items():
        emitter.begin()
        for op in program:
            narrowed.append(op)
        emitter.end(name)
        narrowed.forget_taken()
    return emitter.cycle


class _Narrowed:
    """Writes operators anew, on blocks that are made once each."""

    def __init__(self, emitter: Emitter, cuts: Cuts) -> None:
        self._emitter, self._cuts = emitter, cuts
        self._new: dict[str, str] = {}
        self._taken: dict[tuple[str, str], str] = {}
        cycle = emitter.cycle
        named = {name.partition(ON_BLOCK)[2] for name, value in cycle.values.items() if value.role == "input"}
        whole = {name for program in cycle.programs.values() for name in _of_sparse_rows(cycle, program)}
        self._stays = named | whole

    def append(self, op: Operator) -> None:
        """An operator, after what takes its rows."""
        attributes = dict(op.attributes)
        if "blocks" in attributes:
            attributes["blocks"] = tuple(self._block(name) for name in attributes["blocks"])
        reads, block = op.reads, attributes.get("block")
        if block and self._block(block) != block:
            attributes["block"] = new = self._block(block)
            needs = [KINDS[op.kind].need(number) for number in range(len(reads))]
            reads = tuple(
                self._rows(name, new) if need is Need.COLUMN else name for name, need in zip(reads, needs, strict=True)
            )
        self._emitter.append(replace(op, reads=reads, attributes=attributes))

    def forget_taken(self) -> None:
        """Another program begins, where nothing has been taken yet."""
        self._taken = {}

    def _rows(self, name: str, index: str) -> str:
        if (name, index) not in self._taken:
            self._taken[name, index] = self._emitter.emit("take", name, key=f"{name}/of {index}", index=index)
        return self._taken[name, index]

    def _block(self, name: str) -> str:
        """The block over the columns in which it has entries; itself where these are all, or it may not change."""
        if name not in self._new:
            self._new[name] = name if name in self._stays else self._narrow(name)
        return self._new[name]

    def _narrow(self, name: str) -> str:
        cycle = self._emitter.cycle
        assert cycle.arrays
        parts = [self._cut(matrix) for matrix in cycle.arrays.matrices[name]]
        block, new = cycle.blocks[name], f"{name}{READ}"
        sizes = tuple(len(columns) for columns, _ in parts)
        if sizes == cycle.spaces[block.column].sizes:
            return name
        self._emitter.add_space(Space(new, sizes))
        runs = tuple(_num_runs(columns) for columns, _ in parts)  # that a disk is asked for
        self._emitter.add_index(Index(new, block.column, new, num_runs=runs), [columns for columns, _ in parts])
        self._emitter.add_block(replace(block, name=new, column=new), [matrix for _, matrix in parts])
        return new

    def _cut(self, matrix: Part) -> tuple[np.ndarray, Part]:
        if id(matrix) not in self._cuts:
            columns = np.flatnonzero(column_counts(matrix)).astype(np.int64)
            self._cuts[id(matrix)] = matrix, columns, _over(matrix, columns)
        return self._cuts[id(matrix)][1:]


def _num_runs(rows: np.ndarray) -> int:
    return int(np.count_nonzero(np.diff(rows) != 1)) + (len(rows) > 0)


def _of_sparse_rows(cycle: Cycle, program: Program) -> Iterable[str]:
    """Blocks that gather rows which are sparse, and of layers that are one whole operator."""
    for op in program:
        if KINDS[op.kind].is_whole or any(cycle.values[name].layout == "csr" for name in op.reads):
            yield from (name for name in (op.attributes.get("block"), *op.attributes.get("blocks", ())) if name)


def _over(matrix: Part, columns: np.ndarray) -> Part:
    """A matrix over the columns in which it has entries."""
    if len(columns) == matrix.shape[1]:
        return matrix
    if isinstance(matrix, Cut):
        return replace(matrix, columns=matrix.columns[columns])
    new_id = np.full(matrix.shape[1], -1, np.int64)
    new_id[columns] = np.arange(len(columns))
    return select_columns(matrix, new_id[matrix.indices] >= 0, new_id, len(columns))
