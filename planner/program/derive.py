"""The backward half: derived in the program, for all workers' copies at once.

A value that several operators read has as its gradient the sum of what they contribute. The first contribution IS
the gradient; a later one takes it as `base` where its kind can, else an `add` joins them. Parameters are the only
copies that no operator made, so theirs are the only gradients that are summed over workers here: all other copies
were made by exchanges, whose derivative sums them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import Any

from gnnplan.planner.program.cells import BACKWARD
from gnnplan.planner.program.cycle import SETUP, Cycle, Program
from gnnplan.planner.program.dead import without_dead
from gnnplan.planner.program.emitter import Emitter
from gnnplan.planner.program.kinds import KINDS
from gnnplan.planner.program.optimizer import LOSS, Optimizer, add_step
from gnnplan.planner.program.parts import Operator


class Derivation:
    """What kinds emit their derivatives with.

    Args:
        emitter: it has the forward program, and gets the backward one behind it.
    """

    def __init__(self, emitter: Emitter) -> None:
        self._emitter, self._forward = emitter, emitter.operators[:]
        self.grads: dict[str, str] = {}
        self._wanted = depending_on_parameters(emitter.cycle, self._forward)
        self._key = ""

    def run(self) -> dict[str, str]:
        """Emits the backward half; returns every value's gradient."""
        for op in reversed(self._forward):
            derive, grads = KINDS[op.kind].derive, tuple(self.grads.get(name) for name in op.writes)
            if derive is None or (op.kind != "loss" and not any(grads)):
                continue
            self._key = op.key
            derive(self, op, grads)
        return self.grads

    def emit(self, kind: str, *reads: str, **attributes: Any) -> str:
        """An operator of the derivative of the present one; the name of what it writes."""
        return self._emitter.emit(kind, *reads, key=f"{self._key}{BACKWARD}{kind}", **attributes)

    def emit_all(self, kind: str, *reads: str, **attributes: Any) -> tuple[str, ...]:
        """The same, where it writes several."""
        return self._emitter.emit_all(kind, *reads, key=f"{self._key}{BACKWARD}{kind}", **attributes)

    def wants(self, name: str) -> bool:
        """Whether anybody asks for a value's gradient."""
        return name in self._wanted

    def add(self, name: str, contribution: Callable[[], str]) -> None:
        """Adds to a value's gradient. `contribution` emits operators and names their result.

        It is not called where nobody asks for the gradient.
        """
        if name not in self._wanted:
            return
        operators = self._emitter.operators
        before, present = len(operators), self.grads.get(name)
        new = contribution()
        if present is None:
            self.grads[name] = new
            return
        last = operators[-1]
        if len(operators) > before and KINDS[last.kind].takes_base and last.writes == (new,):
            attributes = {**last.attributes, "base": True}
            operators[-1] = replace(last, reads=(*last.reads, present), attributes=attributes)
            self.grads[name] = new
        else:
            self.grads[name] = self.emit("add", present, new, factors=(1, 1))

    def give(self, name: str, grad: str) -> None:
        """Adds a gradient that is there already."""
        self.add(name, lambda: grad)

    def pass_base(self, operator: Operator, grad: str) -> None:
        """What was added to an operator's result has the result's gradient."""
        if operator.has_base:
            self.give(operator.reads[-1], grad)


def depending_on_parameters(cycle: Cycle, program: Iterable[Operator]) -> set[str]:
    """Values of a forward program that have a gradient."""
    wanted = {name for name, value in cycle.values.items() if value.role == "parameter"}
    for op in program:
        if wanted.intersection(op.reads):
            wanted.update(name for name in op.writes if cycle.values[name].role != "cell")
    return wanted


def differentiate(cycle: Cycle, optimizer: Optimizer) -> Cycle:
    """The cycle with the backward half, the sums over workers and the step behind every program that has a loss."""
    emitter = Emitter(cycle)
    results = set(cycle.results) - {LOSS}  # its sum over workers is handed out
    for name, program in cycle.programs.items():
        if name == SETUP or not _has_loss(program):
            continue
        emitter.begin(program)
        grads = Derivation(emitter).run()
        trained = tuple(parameter for parameter in cycle.parameters if parameter in grads)
        results |= add_step(emitter, trained, tuple(grads[each] for each in trained), optimizer)
        emitter.end(name)
    return without_dead(replace(emitter.cycle, results=frozenset(results)))


def _has_loss(program: Program) -> bool:
    return any(op.kind == "loss" for op in program)
