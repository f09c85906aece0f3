"""Whether two predictions can be told apart."""

from __future__ import annotations

import math

from gnnplan.planner.interval.interval import LEVEL, Interval, half_width
from gnnplan.planner.interval.residuals import PAIRS


def are_apart_here(one_s: float, other_s: float, interval: Interval | None) -> bool:
    """Whether the faster of two plans of one job on the same machines is so when they run, nine times in ten.

    They are wrong in the same direction, mostly: so their ratio is better known than either of them.

    Args:
        interval: of one of the two; what is guessed of it may be off in one and not in the other.
    """
    guessed_share = interval.guessed_share if interval else 0.0
    return abs(math.log(one_s / other_s)) > half_width(PAIRS, 0.0, guessed_share, LEVEL)


def are_apart(one: Interval, other: Interval) -> bool:
    """Whether the faster of two plans on different machines is so when they run, nine times in ten."""
    widths = math.log(one.high_s / one.middle_s), math.log(other.high_s / other.middle_s)
    return abs(math.log(one.middle_s / other.middle_s)) > math.hypot(*widths)
