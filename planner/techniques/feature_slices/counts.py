"""The column layout by counts alone: what `share_columns` would have cut, as far as readers ask."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace

import numpy as np

from gnnplan.planner.contracts.counts import Counts
from gnnplan.planner.models.forward import MASKS
from gnnplan.planner.program.cycle import Cycle
from gnnplan.planner.program.parts import Operator, Space, Value
from gnnplan.planner.program.resized import Sizes, resized
from gnnplan.planner.techniques.feature_slices.slices import Bounds, contiguous


def with_counts(cycle: Cycle, counts: Counts) -> Cycle | None:
    """The program of a small graph that was shared out by columns, with the counts of another (None: it has groups)."""
    if any("groups" in op.attributes for op in cycle.operators()):
        return None
    size, sent = len(counts.even_own), tuple(own * counts.num_workers for own in counts.even_own)
    split = dict(zip(MASKS, counts.split, strict=True))
    routed = np.repeat(counts.even_own, size).reshape(size, size).astype(np.int64)

    def rows(space: Space) -> Sizes | None:
        if space.is_of_vertices:
            return counts.even_own
        if space.name.startswith("all "):
            return (counts.num_nodes,) * size
        return sent if space.name.startswith("sent ") else split.get(space.name)

    found = resized(cycle, rows, lambda block: (counts.num_edges,) * size, lambda route: routed)
    heads = _heads(cycle)
    values = {name: _sliced(value, counts, heads.get(name, 1)) for name, value in found.values.items()}
    found = replace(found, values=values)
    return found.with_programs(lambda program: tuple(_with_columns(found, op, counts, heads) for op in program))


def _heads(cycle: Cycle) -> dict[str, int]:
    """By value the heads that its columns are of: those of the operator that made it, or of what that one read."""
    found: dict[str, int] = {}
    for op in cycle.operators():
        heads = op.attributes.get("heads") or max((found.get(name, 1) for name in op.reads), default=1)
        found.update(dict.fromkeys(op.writes, heads))
    return found


def _sliced(value: Value, counts: Counts, heads: int) -> Value:
    return replace(value, columns=_slices(value.width, counts, heads)) if value.columns else value


def _with_columns(cycle: Cycle, op: Operator, counts: Counts, heads: Mapping[str, int]) -> Operator:
    if "columns" not in op.attributes:
        return op
    width = cycle.values[op.reads[0]].width
    columns = _slices(width, counts, heads[op.writes[0]])
    return replace(op, attributes={**op.attributes, "columns": columns})


def _slices(width: int, counts: Counts, heads: int) -> Bounds:
    """Of workers that stand for others as many columns as the widest of these has."""
    if counts.is_of_each:
        return contiguous(width, counts.shares, heads)
    return tuple((0, min(width, heads * math.ceil(width // heads * share))) for share in counts.shares)
