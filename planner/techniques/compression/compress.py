"""The pass: exchanges carry fewer bytes."""

from __future__ import annotations

from dataclasses import replace

from gnnplan.planner.program.cycle import Cycle, Program
from gnnplan.planner.program.parts import Operator, Value
from gnnplan.planner.techniques.compression.kinds import COMPRESS, DECOMPRESS
from gnnplan.profiles.kernels.compressed import Format, num_words


def compress_exchanges(cycle: Cycle, form: Format) -> Cycle:
    """The cycle whose epochs send halo rows, and the gradients that are returned for them, in a format of fewer bytes.

    What a sender's rows lack is a cell, which is added to the next rows that it sends there. It comes after the
    derivation, so that rows and gradients are treated alike. Setup and evaluation send rows as they are.
    """
    values = dict(cycle.values)
    programs = {
        name: _rewritten(cycle, values, program, form) if name in cycle.order else program
        for name, program in cycle.programs.items()
    }
    return replace(cycle, values=values, programs=programs)


def _rewritten(cycle: Cycle, values: dict[str, Value], program: Program, form: Format) -> Program:
    """Rows are unpacked where they are first read, so that what stands before does not wait for them."""
    found: list[Operator] = []
    on_their_way: dict[str, Operator] = {}
    for op in program:
        for name in op.reads:
            if name in on_their_way:
                found.append(on_their_way.pop(name))
        if is_worth_it(cycle, op, form):
            compress, exchange, on_their_way[op.writes[0]] = _in_three(values, op, form)
            found += [compress, exchange]
        else:
            found.append(op)
    return (*found, *on_their_way.values())


def is_worth_it(cycle: Cycle, op: Operator, form: Format) -> bool:
    """Whether an operator exchanges rows, or gradients of rows, that take fewer bytes in a format."""
    if op.kind != "exchange" or "level" not in op.attributes:
        return False
    x = cycle.values[op.reads[0]]
    is_dense = x.layout == "dense" and x.columns is None and x.dtype == "float32"
    return is_dense and num_words(x.width, form) < x.width and any(cycle.spaces[x.space].sizes)


def _in_three(values: dict[str, Value], op: Operator, form: Format) -> tuple[Operator, Operator, Operator]:
    """An exchange as three operators; the one in the middle keeps its key."""
    (read,), (write,) = op.reads, op.writes
    x, written, words = values[read], values[write], num_words(values[read].width, form)
    packed, came, error = (f"{write}/{word}" for word in ("packed", "came", "error"))
    values[packed] = Value(packed, x.space, words, dtype="int32")
    values[came] = Value(came, written.space, words, dtype="int32")
    values[error] = Value(error, x.space, x.width, role="cell")
    return (
        Operator(f"{op.key}/compress", COMPRESS.name, (read, error), (packed, error), {"format": form}),
        replace(op, reads=(packed,), writes=(came,)),
        Operator(f"{op.key}/decompress", DECOMPRESS.name, (came,), (write,), {"format": form, "width": written.width}),
    )
