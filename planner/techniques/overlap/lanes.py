"""Exchanges on a lane of their own, begun as early as their rows are there."""

from __future__ import annotations

from dataclasses import replace

from gnnplan.planner.program.cycle import SETUP, Cycle, Program
from gnnplan.planner.program.edges import edges
from gnnplan.planner.program.kinds import KINDS
from gnnplan.planner.program.parts import Operator


def overlap_exchanges(cycle: Cycle) -> Cycle:
    """The cycle with what travels beside what is computed."""
    programs = {
        name: program if name == SETUP else _begun_early(cycle, _on_network(program))
        for name, program in cycle.programs.items()
    }
    return replace(cycle, programs=programs)


def _on_network(program: Program) -> Program:
    return tuple(replace(op, lane="network") if _may_be_beside(op) else op for op in program)


def _may_be_beside(op: Operator) -> bool:
    return KINDS[op.kind].collective and not KINDS[op.kind].blocking


def _begun_early(cycle: Cycle, program: Program) -> Program:
    """Every exchange moved up to where the last of what it waits for stands; the order is otherwise as it was."""
    before = edges(cycle, program)
    rank: dict[int, tuple[int, int]] = {}
    for number, op in enumerate(program):
        after = max((rank[other] for other in before[number]), default=(-1, 0))
        rank[number] = (after[0], after[1] + 1) if op.lane == "network" else (number, 0)
    return tuple(program[number] for number in sorted(rank, key=lambda number: (*rank[number], number)))
