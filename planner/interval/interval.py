"""The interval of a predicted epoch, as a plan holds it."""

from __future__ import annotations

import math
from typing import Annotated

from pydantic import Field

from gnnplan.planner.interval.residuals import RESIDUALS, Residuals, deviates, quantile
from gnnplan.profiles.contract import Contract
from gnnplan.profiles.limits import MAX_SECONDS, SomeSeconds

LEVEL = 0.9
GUESS_FACTOR = 2.0  # a guess is taken to be off by this much at LEVEL: an assumption, for nothing measured says it


class Interval(Contract):
    """Where the median epoch of a run is expected, nine times in ten.

    Its logarithm lies within sqrt(Q^2 + (z d)^2 + (g G)^2) of the predicted one. Q is the quantile of residuals, z that
    of a normal variable, d `deviation`, g `guessed_share`, and G what a guess may be off by.

    Args:
        level: the share of epochs that are to be within.
        middle_s: the predicted epoch.
        residuals: of which kind of profiles Q is.
        deviation: standard deviation of the epoch's logarithm, if every operator is as far from its median for a whole
            run as it was timed to spread.
        guessed_share: of the tasks' seconds, those of shapes outside the profile or of figures nobody measured.
    """

    level: Annotated[float, Field(gt=0, lt=1)] = LEVEL
    low_s: SomeSeconds
    middle_s: SomeSeconds
    high_s: SomeSeconds
    residuals: Residuals
    deviation: Annotated[float, Field(ge=0)]
    guessed_share: Annotated[float, Field(ge=0, le=1)]

    @classmethod
    def around(
        cls, middle_s: float, residuals: Residuals, deviation: float, guessed_share: float, level: float = LEVEL
    ) -> Interval:
        """Around a predicted epoch."""
        factor = math.exp(half_width(RESIDUALS[residuals], deviation, guessed_share, level))
        return cls(
            level=level,
            low_s=middle_s / factor,
            middle_s=middle_s,
            high_s=min(middle_s * factor, MAX_SECONDS),
            residuals=residuals,
            deviation=deviation,
            guessed_share=guessed_share,
        )

    def at(self, level: float) -> Interval:
        """The same prediction at another level."""
        return Interval.around(self.middle_s, self.residuals, self.deviation, self.guessed_share, level)


def half_width(residuals: tuple[float, ...], deviation: float, guessed_share: float, level: float) -> float:
    """Of an interval, in logarithms (`Interval` has the formula)."""
    z = deviates(level)
    guess = math.log(GUESS_FACTOR) * z / deviates(LEVEL)
    return math.hypot(quantile(residuals, level), z * deviation, guessed_share * guess)
