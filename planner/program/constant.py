"""What depends on no parameter and on no epoch leaves the cycle, and is done once before it.

The first aggregation made once and a cache of halo features are this one pass: all constants, or those alone that
some exchanges need.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace

from gnnplan.planner.program.cycle import SETUP, Cycle, Program
from gnnplan.planner.program.dead import without_dead
from gnnplan.planner.program.kinds import KINDS
from gnnplan.planner.program.kinds.reduce import EVALUATING
from gnnplan.planner.program.parts import Operator


def hoist_constants(cycle: Cycle, chosen: Callable[[Operator], bool] = lambda op: True) -> Cycle:
    """The cycle with operators in its setup that are the same in every epoch: the chosen ones, and what they need.

    What training does not have in its setup, evaluation does for itself.
    """
    setup = list(cycle.programs.get(SETUP, ()))
    made = {name for op in setup for name in op.writes}
    programs: dict[str, Program] = {}
    trained = {name: program for name, program in cycle.programs.items() if name in cycle.order}
    for name, program in trained.items():
        hoisted = _hoisted(cycle, program, made, chosen)
        fresh = (op for number, op in enumerate(program) if number in hoisted and not made.issuperset(op.writes))
        setup += _under_own_keys(fresh, setup)
        made.update(written for number in hoisted for written in program[number].writes)
        programs[name] = tuple(op for number, op in enumerate(program) if number not in hoisted)
    for name, program in cycle.programs.items():
        if name != SETUP and name not in trained:
            constant = _constants(cycle, program, made)
            programs[name] = tuple(
                op for i, op in enumerate(program) if not (i in constant and made.issuperset(op.writes))
            )
    if setup:
        programs[SETUP] = tuple(setup)
    return without_dead(_with_cells(replace(cycle, programs=programs), made))


def _under_own_keys(ops: Iterable[Operator], beside: Iterable[Operator]) -> list[Operator]:
    """Programs have keys of their own; where two of them meet, who comes later is called by what it writes."""
    keys, found = {op.key for op in beside}, []
    for op in ops:
        found.append(replace(op, key=op.writes[0]) if op.key in keys else op)
        keys.add(found[-1].key)
    return found


def constant_values(cycle: Cycle, program: Program) -> set[str]:
    """Inputs, and what is made of them that is the same in every epoch."""
    inputs = {name for name, value in cycle.values.items() if value.role == "input"}
    return inputs | {name for number in _constants(cycle, program, set()) for name in program[number].writes}


def aggregates_constants(cycle: Cycle) -> bool:
    """Whether some sum over edges, or some filter, reads rows that are the same in every epoch."""
    for name in cycle.order:
        constant = constant_values(cycle, cycle.programs[name])
        if any(op.kind in ("aggregate", "filter") and op.reads[0] in constant for op in cycle.programs[name]):
            return True
    return False


def _constants(cycle: Cycle, program: Program, made: set[str]) -> set[int]:
    """Operators that read inputs, what was made of these, and nothing else."""
    known, found = set(made), set()
    for number, op in enumerate(program):
        given = all(cycle.values[name].role == "input" or name in known for name in op.reads)
        if given and not KINDS[op.kind].varies and op.kind not in ("loss", *EVALUATING):
            known.update(op.writes)
            found.add(number)
    return found


def _hoisted(cycle: Cycle, program: Program, made: set[str], chosen: Callable[[Operator], bool]) -> set[int]:
    constant, needed, found = _constants(cycle, program, made), set[str](), set()
    for number in sorted(constant, reverse=True):
        op = program[number]
        if chosen(op) or needed.intersection(op.writes):
            needed.update(op.reads)
            found.add(number)
    return found


def _with_cells(cycle: Cycle, made: set[str]) -> Cycle:
    """What other programs read of the setup outlives it."""
    read = {name for key, ops in cycle.programs.items() if key != SETUP for op in ops for name in op.reads}
    values = dict(cycle.values)
    for name in made:
        values[name] = replace(values[name], role="cell" if name in read else "temporary")
    return replace(cycle, values=values)
