"""The pass: rows that come are used in the next epoch."""

from __future__ import annotations

from dataclasses import replace

from gnnplan.planner.program.cycle import SETUP, Cycle, Program
from gnnplan.planner.program.parts import Operator
from gnnplan.planner.program.renamed import renamed


def use_late(cycle: Cycle) -> Cycle:
    """The cycle in which halo rows, and gradients that are returned for them, are those of the epoch before.

    What was received is a cell, which starts at zero. An exchange comes after all that read the cell, so on a lane of
    its own it runs beside the rest of the epoch. It comes after the derivation, so that rows and gradients are treated
    alike (PipeGCN, Wan et al. 2022, algorithm 1).
    """
    late = {op.writes[0] for op in cycle.operators_of_epochs() if _brings_rows(cycle, op)}
    fresh = {name: f"{name}/fresh" for name in late}
    values = dict(cycle.values)
    for name in late:
        values[fresh[name]] = replace(values[name], name=fresh[name])
        values[name] = replace(values[name], role="cell")
    programs = {}
    for name, program in cycle.programs.items():
        is_trained = name in cycle.order
        others = program if name == SETUP else renamed(program, fresh)
        programs[name] = _after_readers(program, late) if is_trained else others
    return replace(cycle, values=values, programs=programs)


def _brings_rows(cycle: Cycle, op: Operator) -> bool:
    return op.kind == "exchange" and "level" in op.attributes and cycle.values[op.writes[0]].layout == "dense"


def _after_readers(program: Program, late: set[str]) -> Program:
    """A program whose exchanges of late rows stand behind the last operator that reads what came before."""
    last = {name: number for number, op in enumerate(program) for name in op.reads}

    def place(number: int) -> tuple[int, bool]:
        name = program[number].writes[0]
        return (max(number, last.get(name, number)), True) if name in late else (number, False)

    return tuple(program[number] for number in sorted(range(len(program)), key=place))
