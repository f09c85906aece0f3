"""State that outlives a program."""

from __future__ import annotations

from gnnplan.planner.program.cycle import SETUP, Cycle


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
