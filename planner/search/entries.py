"""How many stored entries sparse rows have once they are aggregated: estimated, for the product may not fit."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial

import numpy as np
import scipy.sparse as sp

from gnnplan.planner.contracts.setting import Memo
from gnnplan.planner.graph import Graph
from gnnplan.planner.program.cycle import Cycle
from gnnplan.planner.program.parts import Operator, Value

_SAMPLED_ROWS = 2000


def with_entries(
    cycle: Cycle, graph: Graph, matrix: sp.csr_matrix, memo: Memo, of_sums: Mapping[str, sp.csr_matrix] | None = None
) -> Cycle:
    """The cycle, whose aggregated sparse features have as many entries as a sample of their rows says.

    The first hop is sampled on every worker. Of further ones an entry is taken to be zero where those of as many rows
    are, each by itself, as the first hop sums over.

    Args:
        matrix: of the sums over edges.
        of_sums: where there are several, by what names of their blocks begin with, as `sum_of` has it.
    """
    values, hops, sums = dict(cycle.values), hops_of(cycle), _sums_of(cycle)
    for name, hop in hops.items():
        if not hop:
            continue
        ids = cycle.arrays.ids[values[name].space]  # type: ignore[union-attr]
        own = (of_sums or {}).get(sums.get(name, ""), matrix)
        key = ("entries", hop, sums.get(name, ""), *(each.tobytes() for each in ids))
        sizes = memo.lasting(key, partial(_entries_of_each, ids, hop, graph, own))
        values[name] = replace(values[name], num_entries=_in_columns(values[name], sizes))
    return replace(cycle, values=values)


def _in_columns(value: Value, sizes: Sequence[int]) -> tuple[int, ...]:
    """Of the entries of whole rows those in each worker's columns, taken to be as many in every column."""
    return tuple(size * value.num_columns(worker) // max(value.width, 1) for worker, size in enumerate(sizes))


def sum_of(block: str) -> str:
    """What the names of all blocks of one sum over edges begin with."""
    return block.partition("@")[0]


def _sums_of(cycle: Cycle) -> dict[str, str]:
    """By value that sums over edges write, which sum it is."""
    operators = (op for op in cycle.operators() if op.kind == "aggregate")
    return {op.writes[0]: sum_of(op.attributes.get("block", "")) for op in operators}


def hops_of(cycle: Cycle) -> dict[str, int]:
    """By sparse value, how many aggregations lie between the features and it."""
    hops: dict[str, int] = {}
    for op in cycle.operators():
        made = [name for name in op.writes if cycle.values[name].layout == "csr"]
        for name in made:
            hops[name] = max((_hops_after(op, number, hops) for number in range(len(op.reads))), default=0)
    return hops


def _hops_after(op: Operator, number: int, hops: dict[str, int]) -> int:
    """A base that is added to has been aggregated already."""
    return hops.get(op.reads[number], 0) + (op.kind == "aggregate" and number == 0)


def _entries_of_each(ids: Sequence[np.ndarray], hop: int, graph: Graph, matrix: sp.csr_matrix) -> tuple[int, ...]:
    return tuple(_entries(each, hop, graph, matrix) for each in ids)


def _entries(ids: np.ndarray, hop: int, graph: Graph, matrix: sp.csr_matrix) -> int:
    x = graph.x if sp.issparse(graph.x) else sp.csr_matrix(graph.x)
    first, dense = int(x[ids].nnz), len(ids) * graph.num_features
    if not len(ids):
        return 0
    sampled = np.random.default_rng(0).choice(ids, min(len(ids), _SAMPLED_ROWS), replace=False)
    second = int(((matrix[sampled] != 0) @ (x != 0)).nnz * len(ids) / len(sampled))
    if not 0 < first < dense or second >= dense:
        return min(dense, second)
    num_summed = math.log1p(-second / dense) / math.log1p(-first / dense)
    return round(dense * (1 - (1 - second / dense) ** num_summed ** (hop - 1)))
