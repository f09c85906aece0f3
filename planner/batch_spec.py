"""What a job's mini-batches are."""

from __future__ import annotations

from typing import Annotated, Self

from pydantic import Field, model_validator

from gnnplan.profiles.contract import Contract
from gnnplan.profiles.limits import MAX_VERTICES, SomeBytes


class MiniBatchSpec(Contract):
    """Training by mini-batches of sampled neighbours instead: one optimizer step a batch.

    Args:
        fan_outs: neighbours drawn a hop, one for each time that the model sums over edges; -1: all of them.
        batch_size: training vertices a batch.
        device_bytes: the most of a CUDA device's memory that batches, graph and features may take beside the
            model; None: what is free. Without such a device it is of no effect.
    """

    fan_outs: tuple[int, ...] = Field(min_length=1)
    batch_size: Annotated[int, Field(ge=1, le=MAX_VERTICES)] = 1024
    device_bytes: SomeBytes | None = None

    @model_validator(mode="after")
    def _draws_neighbours(self) -> Self:
        if any(fan_out == 0 or not -1 <= fan_out <= MAX_VERTICES for fan_out in self.fan_outs):
            shown = ", ".join(str(fan_out) for fan_out in self.fan_outs)
            raise ValueError(f"fan_outs {shown}: give 1 to {MAX_VERTICES} neighbours a hop, or -1 for all of them")
        return self
