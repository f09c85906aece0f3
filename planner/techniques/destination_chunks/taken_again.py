"""Chunks that were put together are not kept beside what they were put into."""

from __future__ import annotations

from dataclasses import replace

from gnnplan.planner.program.cycle import Cycle, Program
from gnnplan.planner.program.parts import Operator, Value

_AGAIN = "/taken again"


def take_again(cycle: Cycle) -> Cycle:
    """The cycle whose backward half reads rows of a chunk where they were put, so that the chunk itself ends there."""
    values = dict(cycle.values)
    programs = {name: _taken_again(program, values) for name, program in cycle.programs.items()}
    return replace(cycle, programs=programs, values=values)


def _taken_again(program: Program, values: dict[str, Value]) -> Program:
    loss = next((number for number, op in enumerate(program) if op.kind == "loss"), len(program))
    put, found = _put_into(program[:loss]), list(program[:loss])
    done: set[str] = set()
    for op in program[loss:]:
        for name in (name for name in op.reads if name in put and name not in done):
            done.add(name)
            whole, index = put[name]
            values[name + _AGAIN] = replace(values[name], name=name + _AGAIN)
            found.append(Operator(name + _AGAIN, "take", (whole,), (name + _AGAIN,), {"index": index}))
        found.append(replace(op, reads=tuple(name + _AGAIN if name in put else name for name in op.reads)))
    return tuple(found)


def _put_into(program: Program) -> dict[str, tuple[str, str]]:
    """Chunk -> the whole that it is put into, and the index of its rows there."""
    found: dict[str, tuple[str, str]] = {}
    into: dict[str, list[tuple[str, str]]] = {}
    for op in program:
        if op.kind == "put":
            before = into.pop(op.reads[1]) if op.has_base else []
            into[op.writes[0]] = [*before, (op.reads[0], op.attributes["index"])]
    for whole, chunks in into.items():
        found.update({chunk: (whole, index) for chunk, index in chunks})
    return found
