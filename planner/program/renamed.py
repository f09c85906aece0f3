"""Operators under other names of values."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from gnnplan.planner.program.cycle import Program
from gnnplan.planner.program.parts import Operator


def renamed(program: Program, names: Mapping[str, str]) -> Program:
    """A program in which some values have other names."""
    return tuple(renamed_operator(op, names) for op in program)


def renamed_operator(op: Operator, names: Mapping[str, str]) -> Operator:
    """An operator whose reads and writes have other names."""

    def of(values: tuple[str, ...]) -> tuple[str, ...]:
        return tuple(names.get(name, name) for name in values)

    return replace(op, reads=of(op.reads), writes=of(op.writes))
