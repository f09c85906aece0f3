"""What a plan decides about partial reduce, as the runtime takes it."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Annotated, Literal, Self

from pydantic import Field, NonNegativeInt, model_validator

from gnnplan.planner.program.group import scales
from gnnplan.profiles.contract import Contract
from gnnplan.profiles.limits import MAX_EPOCHS, Epochs, Workers

Absent = Literal["reuse", "scale"]
"""What stands in for the gradients of workers that are missing from a step."""


class PartialReduceDecision(Contract):
    """How long workers wait for each other, and how old what they use instead may be.

    Args:
        alpha: a layer, and the step, are waited for until (1 + alpha) times what they usually take.
        max_staleness: K. No halo row or gradient used is older than K epochs, and no worker is missing from more
            than K steps on end; 0: all wait for all, which is exact.
        min_group: fewest workers that may step without the others.
        closing_epochs: last ones, in which all wait for all again: exact steps that undo what groups' steps were off.
        average_epochs: last ones, the mean of whose weights the run ends with (0: the last weights).
        absent: `scale` up the gradients of who is there (equations 13 and 14), or `reuse` the last of who is not.
        contributing: `contributing[l][w]` vertices of worker w contribute to layer l's gradient (n of equation 13);
            empty while a plan is searched for.
    """

    alpha: Annotated[float, Field(ge=0, le=1e12)] = 0.5
    max_staleness: Annotated[int, Field(ge=0, le=MAX_EPOCHS)] = 3
    min_group: Workers = 1
    closing_epochs: Epochs = 1
    average_epochs: Annotated[int, Field(ge=0, le=MAX_EPOCHS)] = 0
    absent: Absent = "scale"
    contributing: tuple[tuple[NonNegativeInt, ...], ...] = ()

    @model_validator(mode="after")
    def _averages_what_is_stale(self) -> Self:
        if self.average_epochs and not self.is_stale:
            raise ValueError("average_epochs with max_staleness 0: the mean of exact training's weights is not exact")
        return self

    @property
    def is_stale(self) -> bool:
        """Whether old rows, gradients or a group's gradient may be used."""
        return self.max_staleness > 0

    def closing_from(self, num_epochs: int) -> int:
        """The first of the closing epochs of a run."""
        return max(num_epochs - self.closing_epochs, 0)

    def scales(self, members: tuple[int, ...]) -> list[float]:
        """As `gnnplan.planner.program.group.scales`, of what this decision counted."""
        return scales(self.contributing, members)


def waiting_among(decisions: Iterable[Contract]) -> PartialReduceDecision | None:
    """The one of a plan's decisions that says how workers wait for each other (None: all wait for all)."""
    return next((each for each in decisions if isinstance(each, PartialReduceDecision)), None)
