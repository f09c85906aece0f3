"""A plan's programs as a person reads them: operator by operator, or as a graph."""

from __future__ import annotations

from rich.console import Group
from rich.table import Table
from rich.text import Text

from gnnplan.planner.plan import Plan
from gnnplan.planner.program.cycle import EVALUATE, SETUP, Cycle
from gnnplan.planner.program.edges import edges
from gnnplan.planner.program.kinds import KINDS
from gnnplan.planner.program.parts import Operator
from gnnplan.planner.readers.schedule import schedule_of
from gnnplan.planner.report.units import seconds


def program_tables(plan: Plan) -> Group:
    """Which program each epoch plays, then a table of each: its tasks in order, their results and predicted seconds."""
    cycle = plan.cycle.cycle()
    names = sorted(cycle.programs, key=lambda name: (name != SETUP, name not in cycle.order))
    return Group(Text(_order(cycle)), *(_table(plan, cycle, name) for name in names))


def _order(cycle: Cycle) -> str:
    words = [f"epochs play: {', '.join(cycle.order)}" + (", and so on" if len(cycle.order) > 1 else "")]
    words += [f"once before the first epoch: {SETUP}"] if SETUP in cycle.programs else []
    words += [f"after the last: {EVALUATE}"] if EVALUATE in cycle.programs else []
    return "; ".join(words)


def _table(plan: Plan, cycle: Cycle, name: str) -> Table:
    table = Table(title=name, title_justify="left")
    for column in ("task", "operator", "makes", "predicted"):
        table.add_column(column, overflow="fold", justify="right" if column == "predicted" else "left")
    slowest = _slowest_s(plan, cycle, name)
    for op in cycle.programs[name]:
        predicted = seconds(slowest[op.key]) if op.key in slowest else "view"
        table.add_row(op.key, _what(op), _makes(cycle, op), predicted)
    return table


def _slowest_s(plan: Plan, cycle: Cycle, name: str) -> dict[str, float]:
    """Seconds of every task on the worker that it takes longest."""
    found: dict[str, float] = {}
    for task in schedule_of(cycle, name, plan.placement).tasks:
        found[task.key] = max(found.get(task.key, 0.0), task.seconds)
    return found


def _what(op: Operator) -> str:
    notes = ["adds up" if op.has_base else "", "in place" if op.inplace is not None else ""]
    said_of = {"late": "may be late", "group": "of who is ready"}
    notes += [words for name, words in said_of.items() if op.attributes.get(name)]
    notes += ["beside" if op.lane == "network" else "", "back" if op.attributes.get("back") else ""]
    said = ", ".join(note for note in notes if note)
    return f"{op.kind} ({said})" if said else op.kind


def _makes(cycle: Cycle, op: Operator) -> str:
    """Rows by columns, each from the least to the most of any worker; of many values the first."""
    value = cycle.values[op.writes[0]]
    sizes = cycle.spaces[value.space].sizes
    rows = f"{min(sizes):,}" if min(sizes) == max(sizes) else f"{min(sizes):,}-{max(sizes):,}"
    more = f" and {len(op.writes) - 1} more" if len(op.writes) > 1 else ""
    widths = [value.num_columns(worker) for worker in cycle.workers]
    columns = f"{min(widths):,}" if min(widths) == max(widths) else f"{min(widths):,}-{max(widths):,}"
    return f"{rows} x {columns}{' sparse' if value.layout == 'csr' else ''}{more}"


def program_graph(cycle: Cycle, name: str) -> str:
    """A program in Graphviz's language: an arrow from every operator to those that wait for it."""
    program = cycle.programs[name]
    lines = ["digraph program {", "  rankdir=TB; node [shape=box, fontname=Helvetica];"]
    for number, (op, before) in enumerate(zip(program, edges(cycle, program), strict=True)):
        style = ", style=filled, fillcolor=lightblue" if KINDS[op.kind].collective else ""
        lines.append(f'  {number} [label="{op.key}\\n{_what(op)}"{style}];')
        lines += [f"  {other} -> {number};" for other in sorted(before)]
    return "\n".join([*lines, "}", ""])
