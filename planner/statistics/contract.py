"""The `Statistics` contract: numbers that stand for a graph, measured or written by hand."""

from __future__ import annotations

from itertools import pairwise
from typing import Annotated, ClassVar, Literal, Self

from pydantic import Field, PositiveFloat, model_validator

from gnnplan.profiles.contract import Contract, Document
from gnnplan.profiles.limits import MAX_EDGES, Edges, Width, Workers

MAX_BINS = 4096  # of degrees; a measured graph has some hundred
Fraction = Annotated[float, Field(ge=0, le=1)]
Nodes = Annotated[int, Field(ge=1, le=MAX_EDGES)]  # more than ids of a graph that is loaded may be
Factor = Annotated[float, Field(ge=1, le=1e6)]


class DegreeBin(Contract):
    """Vertices whose degrees are alike.

    Args:
        degree: their mean: how many vertices gather the row of one of them, itself left out.
    """

    degree: Annotated[float, Field(ge=0, le=MAX_EDGES)]
    num_nodes: Nodes


class Cut(Contract):
    """How a partitioner cut the graph into equal parts.

    Args:
        remote_edges: share of the edges that lead from one part into another.
        halo_rows: halo rows of all parts together, over N.
        largest_halo, largest_own: of a part over their mean: its halo rows, and its own rows.
    """

    num_parts: Annotated[Workers, Field(ge=2)]
    remote_edges: Fraction
    halo_rows: Annotated[float, Field(ge=0, le=MAX_EDGES)]
    largest_halo: Factor = 1.0
    largest_own: Factor = 1.0


class Statistics(Document):
    """What a prediction needs of a graph.

    Args:
        num_edges: directed ones, each once, self loops left out.
        train_fraction, val_fraction, test_fraction: of the vertices.
        feature_density: share of the features' entries that are not zero.
        aggregated_density: the same after one aggregation (None: estimated from the mean degree).
        sparse_feature_density: features are held as CSR where at most this share is not zero.
        feature_item_bytes: of one feature as hosts store them, which mini-batches gather and move.
        degrees: of all vertices (empty: a power law with this exponent and the mean of `num_edges`).
        cuts: by rising number of parts (empty: unknown, and a random partition is taken, which is the worst).
    """

    KIND: ClassVar[str] = "statistics"
    MADE_BY: ClassVar[str] = "gnnplan statistics JOB -o FILE"

    name: str = "graph"
    num_nodes: Nodes
    num_edges: Edges
    num_features: Width
    num_classes: Width
    is_multilabel: bool = False
    train_fraction: Fraction = 0.6
    val_fraction: Fraction = 0.2
    test_fraction: Fraction = 0.2
    feature_density: Fraction = 1.0
    aggregated_density: Fraction | None = None
    sparse_feature_density: Fraction = 0.1
    feature_item_bytes: Literal[2, 4] = 4
    degrees: Annotated[tuple[DegreeBin, ...], Field(max_length=MAX_BINS)] = ()
    degree_exponent: Annotated[float, Field(ge=2.05, le=100)] = 2.5
    cuts: Annotated[tuple[Cut, ...], Field(max_length=MAX_BINS)] = ()
    partitioner: str = ""
    note: str = ""
    largest_degree: PositiveFloat | None = None

    @model_validator(mode="after")
    def _is_of_one_graph(self) -> Self:
        if self.degrees and (found := sum(each.num_nodes for each in self.degrees)) != self.num_nodes:
            raise ValueError(f"degrees are of {found:,} vertices, num_nodes is {self.num_nodes:,}")
        edges = sum(each.num_nodes * each.degree for each in self.degrees)
        if self.degrees and abs(edges - self.num_edges) > 0.01 * self.num_edges + 1:
            raise ValueError(f"degrees add up to {edges:,.0f}, num_edges is {self.num_edges:,}")
        if any(one.num_parts >= other.num_parts for one, other in pairwise(self.cuts)):
            raise ValueError("cuts must stand by rising num_parts")
        if self.train_fraction <= 0:
            raise ValueError("train_fraction must be above 0")
        return self

    @property
    def has_sparse_features(self) -> bool:
        """Whether features are held as CSR where a plan wants them so."""
        return self.feature_density <= self.sparse_feature_density
