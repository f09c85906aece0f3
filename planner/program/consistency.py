"""Whether a cycle that was read from a document is one: names resolve, sizes agree, every operator fits its kind."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from operator import le

import numpy as np

from gnnplan.planner.program.aliases import views
from gnnplan.planner.program.cycle import Cycle, Program
from gnnplan.planner.program.kinds import KINDS
from gnnplan.planner.program.outside import OUTSIDE
from gnnplan.planner.program.parts import Operator, Value


def fault_of(cycle: Cycle) -> str | None:
    """What is wrong with a cycle, in a line; None where it can be priced and played."""
    return next(_faults(cycle), None)


def _faults(cycle: Cycle) -> Iterator[str]:
    yield from _faulty_sizes(cycle)
    yield from _faulty_names(cycle)
    yield from _faulty_routes(cycle)
    if not cycle.order or any(name not in cycle.programs for name in cycle.order):
        yield "order must name programs, at least one"
    for name, program in cycle.programs.items():
        yield from (f"programs.{name}: {fault}" for fault in _faulty_program(cycle, program))


def _faulty_sizes(cycle: Cycle) -> Iterator[str]:
    """Everything that is said of each worker is said of as many as there are."""
    size = cycle.num_workers
    for name, space in cycle.spaces.items():
        if len(space.sizes) != size or len(space.num_own) not in (0, size):
            yield f"spaces.{name} must have sizes of {size} workers"
    for name, value in cycle.values.items():
        columns = value.columns or ((0, value.width),) * size
        if len(columns) != size or any(not 0 <= start <= stop <= value.width for start, stop in columns):
            yield f"values.{name} must have columns of {size} workers, within its width"
        if len(value.num_entries) != (size if value.layout == "csr" else 0):
            yield f"values.{name} must have num_entries of {size} workers where it is csr, and only there"
    for name, block in cycle.blocks.items():
        if len(block.num_edges) != size:
            yield f"blocks.{name} must have num_edges of {size} workers"
    for name, index in cycle.indexes.items():
        rows = cycle.spaces[index.target].sizes if index.target in cycle.spaces else ()
        if index.num_runs and not (len(index.num_runs) == size and all(map(le, index.num_runs, rows))):
            yield f"indexes.{name} must have num_runs of {size} workers, of no more than their rows"
    for name, route in cycle.routes.items():
        if route.counts.shape != (size, size):
            yield f"routes.{name} must have counts of {size} by {size} workers"


def _faulty_names(cycle: Cycle) -> Iterator[str]:
    """Names within values, blocks, indexes and routes are there."""
    wanted = [(f"values.{name}", value.space) for name, value in cycle.values.items()]
    for name, block in cycle.blocks.items():
        wanted += [(f"blocks.{name}", space) for space in (block.row, block.column, block.edges)]
    for name, index in cycle.indexes.items():
        wanted += [(f"indexes.{name}", space) for space in (index.source, index.target)]
    for name, route in cycle.routes.items():
        wanted += [(f"routes.{name}", space) for space in (route.source, route.target)]
    for where, space in wanted:
        if space not in cycle.spaces:
            yield f"{where}: there is no space {space!r}"
    for name in cycle.parameters:
        if name not in cycle.values or cycle.values[name].role != "parameter":
            yield f"parameters.{name}: there is no such value"


def _faulty_routes(cycle: Cycle) -> Iterator[str]:
    """Every row of a route's spaces travels once; or every row goes to all workers, or to all of the worker's group."""
    for name, route in cycle.routes.items():
        leaving, arriving = (cycle.spaces[space].sizes for space in (route.source, route.target))
        all_rows, counts = np.array(leaving)[:, None], route.counts
        is_all = ((counts == all_rows) | (counts == 0)).all() and (counts.diagonal() == all_rows[:, 0]).all()
        if is_all and counts.sum(0).tolist() == list(arriving):
            continue
        for rank in cycle.workers:
            if route.counts[rank].sum() != leaving[rank] or route.counts[:, rank].sum() != arriving[rank]:
                yield f"routes.{name} must send {leaving[rank]} rows of worker {rank}, and bring it {arriving[rank]}"


def _faulty_program(cycle: Cycle, program: Program) -> Iterator[str]:
    known = {name for name, value in cycle.values.items() if value.role != "temporary"}
    keys: set[str] = set()
    for op in program:
        fault = _faulty_operator(cycle, op, known)
        if fault or op.key in keys:
            yield f"{op.key}: {fault or 'there are two of this name'}"
            return
        keys.add(op.key)
        known.update(op.writes)


def _faulty_operator(cycle: Cycle, op: Operator, known: set[str]) -> str | None:
    kind = KINDS.get(op.kind)
    if kind is None or kind.is_abstract:
        return f"there is no operator of kind {op.kind!r}"
    unknown = [name for name in op.reads if name not in known] + [n for n in op.writes if n not in cycle.values]
    if unknown:
        return f"{unknown[0]!r} is read before anything writes it, or is no value"
    if op.lane == "network" and not kind.collective:
        return "only what all workers take part in has the network's lane"
    if op.inplace is not None and op.inplace >= len(op.reads):
        return "inplace must be one of its reads"
    try:
        made = kind.shape(cycle, op)
        views(cycle, op)
    except (KeyError, IndexError, TypeError, ValueError, AttributeError, AssertionError, ZeroDivisionError):
        return f"its reads and attributes are not those of kind {op.kind!r}"
    if len(made) != len(op.writes):
        return f"it must write {len(made)} values"
    wrong = [n for n, shape in zip(op.writes, made, strict=True) if not _is_alike(cycle.values[n], shape, kind.by_part)]
    return f"{wrong[0]!r} has not the shape that it makes" if wrong else None


def _is_alike(value: Value, shape: Value, by_part: bool) -> bool:
    """Stored entries aside, which are estimates. What is made part by part may lie outside."""
    if by_part and value.tier in OUTSIDE:
        shape = replace(shape, tier=value.tier)
    one, other = ((each.space, each.width, each.columns, each.layout, each.tier) for each in (value, shape))
    return one == other
