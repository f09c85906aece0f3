"""What of an epoch is uncertain, from the spread of its operators."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gnnplan.planner.interval.deviation import epoch_deviation, guessed_share
from gnnplan.planner.schedule import Schedule, Task
from gnnplan.planner.simulator.montecarlo import log_deviation


def chain(*parts):
    """A worker's tasks one after the other: (operator, seconds, spread)."""
    schedule = Schedule(1)
    for number, (operator, seconds, spread_s) in enumerate(parts):
        after = (number - 1,) if number else ()
        named = ((operator, seconds),)
        schedule.add(Task(f"t{number}", 0, "compute", seconds, 0, after, spread_s=spread_s, parts=named))
    return schedule


def test_one_operator_moves_the_whole_epoch():
    """Its tasks are off together, so the epoch is off by as much as each of them."""
    assert epoch_deviation(chain(*[("spmm", 0.01, 0.002)] * 9)) == pytest.approx(log_deviation(0.01, 0.002), rel=1e-4)


def test_operators_are_independent():
    """Two of equal size are off by the root of the sum of squares, to first order."""
    each = math.log((math.exp(log_deviation(0.01, 0.001)) + 1) / 2)
    found = epoch_deviation(chain(("spmm", 0.01, 0.001), ("matmul", 0.01, 0.001)))
    assert found == pytest.approx(math.hypot(each, each), rel=1e-4)


spreads = st.lists(st.floats(0, 0.02), min_size=3, max_size=3)


@given(spreads, spreads)
def test_it_grows_with_every_spread(one, other):
    """And is nothing where nothing was timed to spread."""
    low, high = ([choose(pair) for pair in zip(one, other, strict=True)] for choose in (min, max))
    names = ("a", "b", "c")
    narrow, wide = (
        epoch_deviation(chain(*[(name, 0.01, spread) for name, spread in zip(names, each, strict=True)]))
        for each in (low, high)
    )
    assert narrow <= wide + 1e-9
    assert epoch_deviation(chain(*[(name, 0.01, 0.0) for name in names])) == 0


def test_who_does_not_bind_does_not_count():
    """A worker that is done long before the other may vary."""
    schedule = Schedule(2)
    schedule.add(Task("a", 0, "compute", 1.0, 0, parts=(("a", 1.0),)))
    schedule.add(Task("b", 1, "compute", 0.1, 1, spread_s=0.05, parts=(("b", 0.1),)))
    assert epoch_deviation(schedule) == 0


def test_the_share_of_guesses():
    """By seconds, of shapes outside the profile and of workers whose profile is published."""
    schedule = Schedule(2)
    schedule.add(Task("a", 0, "compute", 3.0, 0))
    schedule.add(Task("b", 0, "compute", 1.0, 0, unprofiled=True))
    schedule.add(Task("c", 1, "compute", 4.0, 1))
    assert guessed_share([schedule], frozenset()) == pytest.approx(1 / 8)
    assert guessed_share([schedule], frozenset({1})) == pytest.approx(5 / 8)
