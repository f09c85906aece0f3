"""Operators at the machine's mean pace: what was timed in a slow second is not taken for a slow operator."""

import pytest

from gnnplan.profiles.measure import Timing
from gnnplan.profiles.pace import Paced, PaceMaker, at_mean_pace


def test_slow_seconds_are_taken_out():
    """The same operator timed at pace 1 and at pace 3 of a mean of 2: twice, and two thirds of, its seconds."""
    fast, slow = (Paced((Timing(seconds, 0.1 * seconds, 5),), seconds) for seconds in (1.0, 3.0))
    ((first,), (second,)) = at_mean_pace([fast, slow])
    assert first.median_s == second.median_s == pytest.approx(2.0)
    assert first.spread_s == second.spread_s == pytest.approx(0.2)
    assert first.repeats == 5


def test_what_had_no_pace_stays():
    """And nothing timed is nothing."""
    timing = Timing(1.0, 0.1, 5)
    assert at_mean_pace([Paced((timing,), 0.0)]) == [(timing,)]
    assert at_mean_pace([Paced((), 1.0), Paced((timing, timing), 1.0)]) == [(), (timing, timing)]
    assert at_mean_pace([]) == []


def test_work_is_timed_around_the_probe():
    """Once before and once after; its mean is the probe's pace."""
    maker, called = PaceMaker(), []

    def seconds():
        called.append("work")
        return float(len(called))

    maker.seconds = seconds
    paced = maker.beside(lambda: called.append("probe") or (Timing(1.0, 0.0, 1),))
    assert called == ["work", "probe", "work"]
    assert paced.pace_s == 2.0


def test_work_takes_processor_time():
    """Of both halves: were one free, the whole would be too."""
    assert PaceMaker().seconds() > 0
