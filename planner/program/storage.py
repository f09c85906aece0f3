"""Operators that may write in place: decided once, by one late pass, after which nobody adds a reader."""

from __future__ import annotations

from dataclasses import replace

from gnnplan.planner.program.aliases import views
from gnnplan.planner.program.cycle import Cycle, Program
from gnnplan.planner.program.kinds import KINDS
from gnnplan.planner.program.parts import Operator


def reuse_storage(cycle: Cycle) -> Cycle:
    """The cycle with `inplace` set where what is overwritten, views of it included, is read by nobody later."""
    return cycle.with_programs(lambda program: _reuse(cycle, program))


def _reuse(cycle: Cycle, program: Program) -> Program:
    storage = _Storage(cycle, program)
    return tuple(storage.decided(number, op) for number, op in enumerate(program))


class _Storage:
    """Alias classes of a program: values that lie in one storage, and when it is read last."""

    def __init__(self, cycle: Cycle, program: Program) -> None:
        self._cycle, self._owner, self._last = cycle, {}, {}
        for op in program:
            if views(cycle, op):
                for name in op.writes:
                    self._owner[name] = self._of(op.reads[0])
        for number, op in enumerate(program):
            for name in op.reads:
                self._last[self._of(name)] = number
        staying = [name for name in self._owner if cycle.values[name].role != "temporary"]
        self._kept = {self._of(name) for name in (*staying, *cycle.results)}

    def _of(self, name: str) -> str:
        return self._owner.get(name, name)

    def decided(self, number: int, op: Operator) -> Operator:
        options = KINDS[op.kind].inplace or ((len(op.reads) - 1,) if op.has_base else ())
        for read in options:
            if self._may_overwrite(number, op, read):
                self._join(op.reads[read], op.writes[0], number)
                return replace(op, inplace=read)
        return op

    def _may_overwrite(self, number: int, op: Operator, read: int) -> bool:
        values, source = self._cycle.values, op.reads[read]
        old, new, owner = values[source], values[op.writes[0]], self._of(op.reads[read])
        sizes = [self._cycle.spaces[value.space].sizes for value in (old, new)]  # rows of two levels may be as many
        shapes = [(each.width, each.columns, each.layout, each.dtype) for each in (old, new)]
        is_alike = sizes[0] == sizes[1] and shapes[0] == shapes[1]
        is_last = self._last[owner] == number and sum(self._of(name) == owner for name in op.reads) == 1
        roles = {values[name].role for name in (owner, source, op.writes[0])}
        return is_alike and is_last and owner not in self._kept and roles == {"temporary"}

    def _join(self, source: str, target: str, number: int) -> None:
        owner = self._of(source)
        self._last[owner] = self._last.get(target, number)
        if target in self._kept:
            self._kept.add(owner)
        for name in [name for name, of in self._owner.items() if of == target]:
            self._owner[name] = owner
        self._owner[target] = owner
