"""What the backward half computes again, chunk by chunk, instead of keeping it (as HongTu does).

Attention's values on edges take bytes by edge, and what they are made of takes bytes by vertex and stays anyway. A
chunk of a sum is made again where the rows that it gathers stay anyway, since something else of the backward half reads
them too. Rows that were taken out of such a value are taken again.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace
from typing import Literal

from gnnplan.planner.program.aliases import views
from gnnplan.planner.program.cells import AGAIN, overwritten
from gnnplan.planner.program.cycle import Cycle, Program
from gnnplan.planner.program.kinds import KINDS
from gnnplan.planner.program.parts import Operator, Value

Recompute = Literal["nothing", "attention", "sums"]
_KINDS: dict[Recompute, frozenset[str]] = {
    "nothing": frozenset(),
    "attention": frozenset({"take", "score", "softmax"}),
    "sums": frozenset({"take", "score", "softmax", "aggregate"}),
}


def recompute(cycle: Cycle, what: Recompute) -> Cycle:
    """The cycle with some of its chunks made a second time, just before the backward half reads them."""
    values = dict(cycle.values)
    programs = {name: _Recomputed(cycle, program, what, values).program for name, program in cycle.programs.items()}
    return replace(cycle, programs=programs, values=values)


class _Recomputed:
    """A program, with `made` by the name of every value that is made again the operator that makes it."""

    def __init__(self, cycle: Cycle, program: Program, what: Recompute, values: dict[str, Value]) -> None:
        loss = next((number for number, op in enumerate(program) if op.kind == "loss"), len(program))
        self._values, self._done = values, set[str]()
        staying = _staying(cycle, program[:loss], program[loss:])
        self._maker: dict[str, Operator] = {}
        for op in program[:loss]:
            if op.kind in _KINDS[what] and self._can_be_again(cycle, op, staying):
                self._maker.update(dict.fromkeys(op.writes, op))
        found = list(program[:loss])
        for op in program[loss:]:
            for name in op.reads:
                found += self._made_again(name)
            found.append(replace(op, reads=self._again(op.reads)))
        self.program: Program = tuple(found)

    def _can_be_again(self, cycle: Cycle, op: Operator, staying: Collection[str]) -> bool:
        """Whether an operator on a chunk can be played again with what stays anyway, or is made again before."""
        if op.kind == "take":
            return not views(cycle, op) and op.reads[0] in staying
        if op.kind != "aggregate" or not op.key.endswith("]"):
            return op.key.endswith("]")
        has_base = not op.has_base or op.reads[-1] in self._maker
        return has_base and all(name in staying or name in self._maker for name in KINDS[op.kind].gathered(op))

    def _made_again(self, name: str) -> list[Operator]:
        """The operators that make a value again, and what they need of this kind before them."""
        if name not in self._maker or name in self._done:
            return []
        op = self._maker[name]
        found = [each for read in op.reads for each in self._made_again(read)]
        for written in op.writes:
            self._done.add(written)
            self._values[written + AGAIN] = replace(self._values[written], name=written + AGAIN)
        writes = tuple(written + AGAIN for written in op.writes)
        return [*found, replace(op, key=op.key + AGAIN, reads=self._again(op.reads), writes=writes)]

    def _again(self, names: Collection[str]) -> tuple[str, ...]:
        return tuple(name + AGAIN if name in self._maker else name for name in names)


def _staying(cycle: Cycle, forward: Program, backward: Program) -> set[str]:
    """What the backward half reads, or is a part of what it reads; inputs and cells that are not written over."""
    owner = {name: op.reads[0] for op in (*forward, *backward) if views(cycle, op) for name in op.writes}
    read = {name for op in backward for name in op.reads}
    lasting = {name for name, value in cycle.values.items() if value.role != "temporary"}
    return (lasting | read | {owner[name] for name in read if name in owner}) - overwritten((*forward, *backward))
