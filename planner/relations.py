"""Sums over the edges of one type, of a graph whose edges have types (relations): a matrix for each of them."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Literal, NewType

import numpy as np
import scipy.sparse as sp

from gnnplan.planner.adjacency import Aggregation, aggregation_matrix

EDGE_TYPE = "edge_type"
"""The name of the types among a graph's `edge_values`."""
Relation = NewType("Relation", str)
"""The name of an aggregation over the edges of one type."""
AnyAggregation = Aggregation | Relation
Over = Literal["mean", "sum"]
_NAME = re.compile(r"(mean|sum)_of_type_(\d+)")
_OVER_ALL: Mapping[str, Aggregation] = {"mean": "sage", "sum": "sum"}


def relation(over: Over, number: int) -> Relation:
    """The mean or the sum over a vertex's incoming edges of type `number`."""
    return Relation(f"{over}_of_type_{number}")


def is_relation(name: str) -> bool:
    """Whether an aggregation is over the edges of one type."""
    return _NAME.fullmatch(name) is not None


def any_matrix(
    num_nodes: int, edge_index: np.ndarray, kind: AnyAggregation, edge_values: Mapping[str, np.ndarray]
) -> sp.csr_matrix:
    """CSR float32 [N, N] whose product with [N, F] rows is the aggregation.

    Args:
        kind: as `gnnplan.planner.adjacency.aggregation_matrix` has it, or of one type. A vertex without edges of that
            type has a row of zeros.
        edge_values: [E] or [E, D] by name: those of the graph.
    """
    found = _NAME.fullmatch(kind)
    if found is None:
        return aggregation_matrix(num_nodes, edge_index, kind, edge_values.get("edge_weight"))  # type: ignore[arg-type]
    over, number = found.groups()
    edges = edge_index[:, edge_values[EDGE_TYPE] == int(number)]
    return aggregation_matrix(num_nodes, edges, _OVER_ALL[over])


def combined(used: Mapping[AnyAggregation, sp.csr_matrix]) -> sp.csr_matrix | None:
    """Of some aggregations the one with most entries, all types counting as one (None: of none)."""
    of_types = [matrix for kind, matrix in used.items() if is_relation(kind)]
    found = [matrix for kind, matrix in used.items() if not is_relation(kind)]
    if of_types:
        found.append(sum(of_types[1:], start=of_types[0]).tocsr())
    return max(found, key=lambda matrix: matrix.nnz, default=None)
