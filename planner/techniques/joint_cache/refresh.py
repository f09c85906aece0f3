"""Rows of earlier epochs: received every r-th epoch, and kept in between (CaPGNN)."""

from __future__ import annotations

from dataclasses import replace

from gnnplan.planner.program.cycle import SETUP, Cycle, Program
from gnnplan.planner.program.dead import without_dead
from gnnplan.planner.program.labels import KEEPING, brings
from gnnplan.planner.program.renamed import renamed

REUSE = "reuse"


def refresh_every(cycle: Cycle, interval: int) -> Cycle:
    """The cycle in which kept rows, and the gradients that are returned for them, travel every `interval` epochs.

    It comes after the derivation, so that rows and gradients are treated alike: what was received last is a cell, and
    programs that reuse it have no exchange.
    """
    if interval == 1:
        return cycle
    kept = {op.writes[0] for op in cycle.operators_of_epochs() if brings(op, KEEPING)}
    values = {name: replace(value, role="cell") if name in kept else value for name, value in cycle.values.items()}
    fresh = {name: f"{name}/fresh" for name in kept}
    values |= {fresh[name]: replace(values[name], name=fresh[name], role="temporary") for name in kept}
    programs: dict[str, Program] = {}
    for name, program in cycle.programs.items():
        is_trained = name in cycle.order
        # An evaluation receives its own rows, and leaves alone what training has kept.
        programs[name] = program if is_trained or name == SETUP else renamed(program, fresh)
        if is_trained:
            programs[_reusing(name)] = _without_kept(program)
    order = (*cycle.order, *(tuple(map(_reusing, cycle.order)) * (interval - 1)))
    return without_dead(replace(cycle, values=values, programs=programs, order=order))


def _reusing(name: str) -> str:
    return f"{name}/{REUSE}"


def _without_kept(program: Program) -> Program:
    return tuple(op for op in program if not brings(op, KEEPING))
