"""Where the halves of a training program begin."""

from __future__ import annotations

from gnnplan.planner.program.cycle import Program


def half_begins(program: Program) -> tuple[str, str]:
    """Keys of the operators that begin the forward and the backward half: the first one, and the first behind the loss.

    Args:
        program: one that trains.
    """
    loss = next(number for number, op in enumerate(program) if op.kind == "loss")
    return program[0].key, program[loss + 1].key
