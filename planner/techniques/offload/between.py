"""What the forward half makes and the backward half reads lies outside in between."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import numpy as np

from gnnplan.planner.program.aliases import views
from gnnplan.planner.program.cycle import Cycle, Program
from gnnplan.planner.program.emitter import Emitter
from gnnplan.planner.program.parts import Index, Operator, Tier, Value

_OUT, _BACK = "/outside", "/from outside"


def put_between_halves(cycle: Cycle, tier: Tier) -> Cycle:
    """The cycle whose programs put aside what they make before the loss and read after it.

    What already lies in a value that is outside, or is as small as a parameter, stays as it is. What a GPU has taken of
    such a value it takes again.

    Args:
        tier: where it is put.
    """
    emitter = Emitter(cycle)
    for name, program in cycle.programs.items():
        emitter.begin()
        _write(emitter, program, _kept(cycle, program), tier)
        emitter.end(name)
    return emitter.cycle


def _kept(cycle: Cycle, program: Program) -> set[str]:
    """By name; what the loss reads is there until then, and no room is won by putting it aside."""
    loss = _loss(program)
    made = {name for op in program[:loss] for name in _made(cycle, op)}
    made -= {name for op in program[loss : loss + 1] for name in op.reads}
    return made.intersection(name for op in program[loss + 1 :] for name in op.reads)


def _made(cycle: Cycle, op: Operator) -> Iterator[str]:
    """What an operator makes that has rows of its own in memory."""
    if views(cycle, op):
        return
    for name in op.writes:
        value = cycle.values[name]
        if may_be_put_aside(value) and not cycle.spaces[value.space].is_of_parameters:
            yield name


def may_be_put_aside(value: Value) -> bool:
    """Whether a value is made and dropped within a program, and lies in memory as plain float32 rows."""
    is_rows = value.role == "temporary" and value.layout == "dense" and value.dtype == "float32"
    return is_rows and value.tier == "device"


def _loss(program: Program) -> int:
    return next((number for number, op in enumerate(program) if op.kind == "loss"), len(program))


def _write(emitter: Emitter, program: Program, kept: set[str], tier: Tier) -> None:
    loss, takes, outside, back = _loss(program), dict[str, Operator](), dict[str, str](), dict[str, str]()
    for number, op in enumerate(program):
        if number < loss:
            emitter.append(op)
            if op.kind == "take" and emitter.cycle.values[op.reads[0]].tier == "pinned":
                takes[op.writes[0]] = op
                continue
            outside |= {name: put_aside(emitter, name, name + _OUT, tier) for name in op.writes if name in kept}
            continue
        for name in (name for name in op.reads if name in kept and name not in back):
            if taken := takes.get(name):
                back[name] = emitter.emit("take", *taken.reads, key=name + _BACK, **taken.attributes)
            else:
                back[name] = take_back(emitter, name, outside[name], name + _BACK)
        emitter.append(replace(op, reads=tuple(back.get(name, name) for name in op.reads)))


def put_aside(emitter: Emitter, name: str, key: str, tier: Tier) -> str:
    """The name of what lies outside then, which is another in programs that have other rows."""
    outside = emitter.emit("put", name, key=key, index=_all(emitter, name))
    emitter.add_value(replace(emitter.cycle.values[outside], tier=tier))
    return outside


def take_back(emitter: Emitter, name: str, outside: str, key: str) -> str:
    """The name of a copy of all of it where it was."""
    return emitter.emit("take", outside, key=key, index=_all(emitter, name))


def _all(emitter: Emitter, name: str) -> str:
    """An index of all rows of a value's space."""
    space = emitter.cycle.values[name].space
    index = f"all of {space}"
    if index not in emitter.cycle.indexes:
        sizes = emitter.cycle.spaces[space].sizes
        emitter.add_index(Index(index, space, space, is_view=True), [np.arange(size) for size in sizes])
    return index
