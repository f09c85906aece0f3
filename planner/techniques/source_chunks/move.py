"""The pass: a training program becomes one for every chunk, in which sums over edges are moving aggregates."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from gnnplan.planner.contracts.setting import Memo
from gnnplan.planner.program.constant import constant_values
from gnnplan.planner.program.cycle import Cycle, Program
from gnnplan.planner.program.emitter import Emitter
from gnnplan.planner.program.kinds import KINDS
from gnnplan.planner.program.parts import Operator
from gnnplan.planner.techniques.source_chunks.attention import Attention
from gnnplan.planner.techniques.source_chunks.decision import Chunks
from gnnplan.planner.techniques.source_chunks.divided import Divided, program_name, steps_of


def move(cycle: Cycle, decision: Chunks, memo: Memo) -> Cycle:
    """The cycle whose steps each push the rows of one chunk of the vertices.

    Sums of what is the same in every epoch stay whole: moving would only make them wrong, and they can be made once.
    Evaluation stays as it is.

    Args:
        cycle: forward programs of one logical worker, with arrays.
        memo: keeps what is cut, for layouts know matrices by their identities.
    """
    if decision.num_chunks == 1:
        return cycle
    emitter = Emitter(cycle)
    divided = Divided(emitter, decision, memo)
    order: list[str] = []
    for name in cycle.order:
        constant = constant_values(cycle, cycle.programs[name])
        for step in dict.fromkeys(steps_of(decision)):
            emitter.begin()
            _Step(emitter, divided, constant, step).put(cycle.programs[name])
            emitter.end(program_name(name, step, decision))
        order += [program_name(name, step, decision) for step in steps_of(decision)]
    programs = {name: program for name, program in emitter.cycle.programs.items() if name not in cycle.order}
    return replace(emitter.cycle, programs=programs, order=tuple(order))


class _Step:
    """Writes the program of a step.

    Args:
        constant: values that are the same in every epoch.
        number: what it pushes.
    """

    def __init__(self, emitter: Emitter, divided: Divided, constant: set[str], number: int) -> None:
        self._emitter, self._divided, self._constant, self._number = emitter, divided, constant, number
        self._renamed: dict[str, str] = {}
        self._attention = Attention(emitter, divided, number, self._mean)
        self._means: dict[str, str] = {}  # of rows that are summed

    def put(self, program: Program) -> None:
        for op in program:
            reads = tuple(self._renamed.get(name, name) for name in op.reads)
            # One name in all programs: what is the same in all steps is then made and held once.
            if self._constant.issuperset(op.writes) or self._emitter.cycle.results.intersection(op.writes):
                self._emitter.append(replace(op, reads=reads))
                continue
            renamed = replace(op, key=self._name(op.key), reads=reads, writes=tuple(map(self._written, op.writes)))
            self._renamed |= dict(zip(op.writes, renamed.writes, strict=True))
            if self._moves(op):
                self._fold(op, renamed)
            elif not self._attention.takes(op, renamed):
                self._emitter.append(renamed)

    def _name(self, name: str) -> str:
        return f"{name}/{self._divided.word(self._number)}"

    def _written(self, name: str) -> str:
        """Cells, such as a norm's running statistics, are the same in all steps."""
        return name if self._emitter.cycle.values[name].role == "cell" else self._name(name)

    def _moves(self, op: Operator) -> bool:
        return op.kind == "aggregate" and not self._constant.intersection(KINDS[op.kind].gathered(op))

    def _fold(self, op: Operator, renamed: Operator) -> None:
        """Chunk's messages, what is left of the state, self loops and base: all in one sum (Emma, equation 5)."""
        emitter, block, x, base = self._emitter, op.attributes["block"], renamed.reads[0], renamed.reads[1:]
        follows = self._divided.decision.follow_mean and emitter.cycle.values[x].layout == "dense"
        mean = self._mean(x) if follows else ""
        if loops := self._divided.loops(block):
            base = (emitter.emit("aggregate", x, *base, key=f"{renamed.key}/loops", block=loops, base=bool(base)),)
        of_chunk = self._divided.pushed(block, self._number)
        pushed = emitter.emit("aggregate", x, key=f"{renamed.key}/pushed", block=of_chunk)
        cell = emitter.add_value(replace(emitter.cycle.values[pushed], name=f"moving:{op.key}", role="cell"))
        attributes: dict[str, Any] = {
            "block": self._divided.left(block, self._number),
            "gradient_factor": self._divided.gradient_factor(self._number),
            "base": bool(base),
        }
        kind, reads, writes = "fold", [pushed, cell], [*renamed.writes, cell]
        if follows:
            kind = "fold_following"
            last = emitter.add_value(replace(emitter.cycle.values[mean], name=f"mean:{op.key}", role="cell"))
            reads, writes, attributes["blocks"] = [*reads, mean, last], [*writes, last], (self._divided.sums(block),)
        emitter.emit_all(kind, *reads, *base, key=renamed.key, writes=tuple(writes), **attributes)

    def _mean(self, x: str) -> str:
        """The mean row of all vertices, whose parts travel while x's rows do: who needs it emits it before all else."""
        if x not in self._means:
            emitter = self._emitter
            (num_nodes,) = emitter.cycle.spaces[emitter.cycle.values[x].space].sizes
            total = emitter.emit("column_sum", x, key=f"{x}/sum")
            part = emitter.emit("scale", total, key=f"{x}/part_of_mean", factor=1 / num_nodes)
            (self._means[x],) = emitter.append(Operator(f"{x}/mean", "all_reduce", (part,), (), lane="network"))
        return self._means[x]
