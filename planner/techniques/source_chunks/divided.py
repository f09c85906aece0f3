"""The steps of a cycle of chunks, and the blocks that each of them sums over."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np
import scipy.sparse as sp

from gnnplan.planner.chunks.cut import Parts, take_apart
from gnnplan.planner.chunks.draw import chunk_of, edges_from
from gnnplan.planner.contracts.setting import Memo
from gnnplan.planner.program.emitter import Emitter
from gnnplan.planner.techniques.source_chunks.decision import Chunks

WHOLE = "whole"


def steps_of(decision: Chunks) -> Iterator[int]:
    """The number of what each step of the cycle pushes: a chunk of a division, or last of all numbers, all sources."""
    size, everything = decision.num_chunks, decision.num_chunks * decision.num_shuffles
    passes = decision.num_passes
    for at in range(passes):
        chunks = range(at % decision.num_shuffles * size, (at % decision.num_shuffles + 1) * size)
        is_exact = decision.exact_every and at % decision.exact_every == 0
        yield from (everything, *chunks[1:]) if is_exact else chunks


def program_name(name: str, step: int, decision: Chunks) -> str:
    """What the program of a step is called, of a program that was one for all."""
    return f"{name}/{_word(step, decision)}"


def _word(step: int, decision: Chunks) -> str:
    return WHOLE if step == decision.num_chunks * decision.num_shuffles else f"chunk{step}"


@dataclass
class Divided:
    """Blocks of aggregations in parts, added to a cycle where they are first asked for."""

    emitter: Emitter
    decision: Chunks
    memo: Memo
    _added: set[str] = field(default_factory=set)

    def word(self, step: int) -> str:
        """A step in names of values and operators."""
        return _word(step, self.decision)

    def pushed(self, block: str, step: int) -> str:
        """The entries from a step's sources, as a sum takes them beside what is left of its states."""
        return self._block(f"{block}/{self.word(step)}", block, self._parts(block).pushed[step])

    def entries(self, block: str, step: int) -> str:
        """The entries from a step's sources as they stand."""
        if self.decision.fade == 1:
            return self.pushed(block, step)
        return self._block(f"{block}/{self.word(step)}/entries", block, self._parts(block).entries[step])

    def loops(self, block: str) -> str | None:
        """The self loops (None: there are none)."""
        loops = self._parts(block).loops
        return self._block(f"{block}/loops", block, loops) if loops.nnz else None

    def left(self, block: str, step: int) -> str:
        """What is left of the states: from the rows that the block makes to themselves."""
        return self._of_rows(f"{block}/left{self._number(step)}", block, self._parts(block).left[step])

    def mass(self, block: str, step: int) -> str:
        """What is left of the masses of attention, likewise."""
        if self.decision.fade == self.decision.mass_fade == 1:
            return self.left(block, step)
        return self._of_rows(f"{block}/mass{self._number(step)}", block, self._parts(block).masses[step])

    def mass_scale(self, block: str, step: int) -> str | None:
        """What the mass that is left and the chunk's are multiplied by (None: nothing fades)."""
        scales = self._parts(block).scales
        return self._of_rows(f"{block}/scale{self._number(step)}", block, scales[step]) if scales else None

    def _number(self, step: int) -> str:
        return self.word(step).removeprefix("chunk")

    def _of_rows(self, name: str, of: str, matrix: sp.csr_matrix) -> str:
        return self._block(name, of, matrix, column=self.emitter.cycle.blocks[of].row)

    def sums(self, block: str) -> str:
        """What a row of ones would add up to at each target, self loops left out."""
        return self._of_rows(f"{block}/sums", block, self._parts(block).sums)

    def fed(self, block: str) -> str:
        """Which targets have any edge but self loops."""
        return self._of_rows(f"{block}/fed", block, self._parts(block).fed)

    def gradient_factor(self, step: int) -> float:
        """What gradients that flow back to a step's sources are multiplied by."""
        is_corrected = self.decision.correction and self.word(step) != WHOLE
        return float(self.decision.num_chunks) if is_corrected else 1.0

    def _block(self, name: str, of: str, matrix: sp.csr_matrix, column: str = "") -> str:
        if name not in self._added:
            block = self.emitter.cycle.blocks[of]
            self._added.add(name)
            self.emitter.add_block(block.part(name, (matrix.nnz,), column=column), [matrix])
        return name

    def _parts(self, block: str) -> Parts:
        arrays, decision = self.emitter.cycle.arrays, self.decision
        assert arrays
        (matrix,) = arrays.matrices[block]
        key = ("source chunks", id(matrix), decision.model_dump_json())
        fades = decision.fade, decision.mass_fade
        return self.memo.lasting(key, lambda: take_apart(matrix, self._divisions, decision.num_chunks, *fades))

    @cached_property
    def _divisions(self) -> tuple[np.ndarray, ...]:
        """The chunk of every vertex: the same ones whatever is summed."""
        of, matrices = self.decision, self._summed()
        key = ("divisions", *map(id, matrices), of.model_dump_json())
        return self.memo.lasting(key, lambda: _drawn(edges_from(matrices), of))

    def _summed(self) -> list[sp.csr_matrix]:
        """The matrices of all sums, each once."""
        cycle = self.emitter.cycle
        assert cycle.arrays
        ops = (op for op in cycle.operators_of_epochs() if op.kind in ("aggregate", "weigh"))
        found = {id(matrix): matrix for op in ops for matrix in cycle.arrays.matrices[op.attributes["block"]]}
        return list(found.values())


def _drawn(num_edges: np.ndarray, of: Chunks) -> tuple[np.ndarray, ...]:
    return tuple(chunk_of(num_edges, of.num_chunks, of.seed, at, of.draws) for at in range(of.num_shuffles))
