"""Operators that nobody needs."""

from __future__ import annotations

from gnnplan.planner.program.cycle import Cycle, Program


def without_dead(cycle: Cycle) -> Cycle:
    """Drops operators that write neither a result, a parameter nor a cell, and that no kept one reads."""

    def rewrite(program: Program) -> Program:
        used, kept = set(cycle.results), []
        for op in reversed(program):
            if any(name in used or cycle.values[name].role in ("parameter", "cell") for name in op.writes):
                kept.append(op)
                used.update(op.reads)
        return tuple(reversed(kept))

    return cycle.with_programs(rewrite)
