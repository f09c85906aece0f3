"""State that outlives a program."""

from __future__ import annotations

from collections.abc import Iterator

from gnnplan.planner.program.cycle import SETUP, Cycle, Program

BACKWARD = "/backward/"
"""In the key of an operator of a derivative, between the key of the operator that it is of and its own kind."""
AGAIN = "/again"
"""At the end of the key of an operator that does once more what the one of that key has done."""


def starting_cells(cycle: Cycle) -> list[str]:
    """Cells that are read before anything writes them, so they start at zero: momentum, mailboxes."""
    written: set[str] = set()
    found: dict[str, None] = {}
    for name in (SETUP, *dict.fromkeys(cycle.order)):
        for op in cycle.programs.get(name, ()):
            for read in op.reads:
                if cycle.values[read].role == "cell" and read not in written:
                    found[read] = None
            written.update(op.writes)
    return list(found)


def overwritten(program: Program) -> set[str]:
    """Values that a program writes after it has read them, which only cells are."""
    read: set[str] = set()
    found: set[str] = set()
    for op in program:
        found.update(read.intersection(op.writes))
        read.update(op.reads)
    return found


def num_fresh(cycle: Cycle) -> int:
    """How many programs at the begin of the order need no more cells of epochs before than the first of them does.

    Where rows are kept for some epochs these are the programs in which they travel. What starts at zero may do so in
    any of them.
    """
    starting = set(starting_cells(cycle))
    needed = [_needed(cycle, cycle.programs[name]) - starting for name in cycle.order]
    return next((number for number, each in enumerate(needed) if not each <= needed[0]), len(needed))


def _needed(cycle: Cycle, program: Program) -> set[str]:
    """Cells that a program reads before it writes them."""
    written: set[str] = set()
    found: set[str] = set()
    for op in program:
        found.update(name for name in op.reads if cycle.values[name].role == "cell" and name not in written)
        written.update(op.writes)
    return found


def written_over(cycle: Cycle) -> list[str]:
    """In words every derivative that reads a cell with other rows than its operator has read; none in a right cycle.

    Anything but a cell has one writer in a program. A cell may be written again between an operator and its derivative,
    or its repetition, which then computes with rows that are not those of its operator, and nothing else would tell.
    """
    return [f"{name}: {words}" for name, program in cycle.programs.items() for words in _written_over(cycle, program)]


def _written_over(cycle: Cycle, program: Program) -> Iterator[str]:
    place_of = {op.key: place for place, op in enumerate(program)}
    writes: dict[str, list[int]] = {}
    for place, op in enumerate(program):
        for name in op.writes:
            if cycle.values[name].role == "cell":
                writes.setdefault(name, []).append(place)
    for place, op in enumerate(program):
        before = op.key.removesuffix(AGAIN) if op.key.endswith(AGAIN) else op.key.rpartition(BACKWARD)[0]
        begin = place_of.get(before)
        if begin is None:
            continue
        for name in set(op.reads) & set(program[begin].reads):
            between = [each for each in writes.get(name, ()) if begin <= each < place]
            if between:
                yield f"{op.key} reads cell {name}, which {program[between[-1]].key} has written over"
