"""Which predictions can be told apart."""

import math

from gnnplan.planner.interval.interval import LEVEL, Interval
from gnnplan.planner.interval.ranking import are_apart, are_apart_here
from gnnplan.planner.interval.residuals import PAIRS, quantile


def test_plans_on_the_same_machines():
    """Nearer than the ratio of pairs was off they are one; what is guessed blurs more."""
    sure, guessed = (Interval.around(1.0, "profiled", 0.0, share) for share in (0.0, 1.0))
    assert not are_apart_here(1.0, 1.0, sure)
    assert not are_apart_here(1.0, 1.05, sure)
    assert are_apart_here(1.0, 1.2, sure)
    assert are_apart_here(1.2, 1.0, sure)
    assert not are_apart_here(1.0, 1.2, guessed)


def test_plans_on_different_machines():
    """Neither says anything of how wrong the other is, so they have to lie further apart."""
    near_s = math.exp(1.02 * quantile(PAIRS, LEVEL))
    one, near, far = (Interval.around(middle_s, "profiled", 0.0, 0.0) for middle_s in (1.0, near_s, 1.5))
    assert are_apart_here(1.0, near_s, one)
    assert not are_apart(one, near)
    assert are_apart(one, far)
