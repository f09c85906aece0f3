"""What makes two plans differ, as a table for 80 columns."""

from __future__ import annotations

from collections.abc import Iterator

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from gnnplan.planner.explain.difference import Difference, Step
from gnnplan.planner.report.units import seconds, signed


def difference_table(difference: Difference) -> RenderableType:
    """Change by change from the first plan to the second, with what each moves."""
    moved_s = difference.after_s - difference.before_s
    words = f"epoch {seconds(difference.before_s)} and {seconds(difference.after_s)}"
    if not difference.steps:
        return Text(f"{words}: nothing differs that an epoch depends on")
    table = Table(title=words, title_justify="left")
    for column in ("differs", "first plan", "second plan", "moves", "epoch"):
        table.add_column(column, justify="right" if column in ("moves", "epoch") else "left", overflow="fold")
    for step in difference.steps:
        for row in _rows(step):
            table.add_row(*row)
    table.add_section()
    table.add_row("all", "", "", signed(moved_s), f"{moved_s / difference.before_s:+.1%}")
    notes = [f"{change.what} alone: {change.obstacle}" for step in difference.steps for change in step.changes[:-1]]
    return Group(table, *(Text(f"no plan with {note}, so it moves with what follows it") for note in notes))


def _rows(step: Step) -> Iterator[tuple[str, ...]]:
    *others, last = step.changes
    for change in others:
        yield change.what, change.before, change.after, "and", ""
    yield last.what, last.before, last.after, signed(step.moved_s), seconds(step.epoch_s)
