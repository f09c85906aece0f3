"""What a job says of link prediction."""

from __future__ import annotations

from typing import Annotated, Literal, Self

from pydantic import Field, model_validator

from gnnplan.profiles.contract import Contract
from gnnplan.profiles.limits import MAX_VERTICES, Width

Share = Annotated[float, Field(ge=0, lt=1)]


class LinkSpec(Contract):
    """Trains embeddings whose inner products tell edges from pairs of vertices that are none.

    Edges that are kept for validation and test are neither trained on nor summed over. Where the graph has every edge
    both ways, both go together, and a pair counts once. Self loops are no pairs.

    Args:
        width: columns of an embedding; the model ends with it.
        val_fraction, test_fraction: of the pairs that are edges, what is kept. They are drawn with `split_seed`.
        num_negatives: pairs that are no edges beside every edge that is trained on, of the same head. They are drawn
            once, with `split_seed`.
        num_ranked: pairs that are no edges, of every head, among which its edges are ranked.
        tails: negatives lead to `any` vertex, or to `tails` of edges alone, as where users choose among items.
    """

    width: Width = 64
    val_fraction: Share = 0.05
    test_fraction: Share = 0.1
    num_negatives: Annotated[int, Field(ge=1, le=1000)] = 1
    num_ranked: Annotated[int, Field(ge=1, le=MAX_VERTICES)] = 100
    tails: Literal["any", "tails"] = "any"

    @model_validator(mode="after")
    def _leaves_edges_to_train_on(self) -> Self:
        if self.val_fraction + self.test_fraction >= 1:
            raise ValueError("val_fraction + test_fraction must be below 1, so that there are edges to train on")
        return self
