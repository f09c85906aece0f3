"""T0 is what parts of an epoch take in the warm-up; where other rows travel, what those take longer comes on top."""

import time

import pytest

from gnnplan.runtime.partial.pace import Pace


@pytest.fixture
def clock(monkeypatch):
    """The moment that it is, in a list."""
    now_s = [0.0]
    monkeypatch.setattr(time, "monotonic", lambda: now_s[0])
    return now_s


def live(pace, clock, epoch, seconds):
    """An epoch of one part."""
    pace.begin(epoch)
    clock[0] += seconds
    pace.end_part("a")
    pace.end_epoch()


def usual_s(pace, clock, epoch):
    """T0 of the part and of the epoch, which must be the same, as an epoch begins; alpha is 1."""
    pace.begin(epoch)
    assert pace.deadline_s("a") == pace.step_deadline_s()
    return (pace.deadline_s("a") - clock[0]) / 2


def test_usual_seconds_are_the_least_of_the_warm_up_without_its_first_epoch(clock):
    """Per part; deadlines count from where the part began, and there is none in the warm-up."""
    pace = Pace(alpha=0.5)
    for epoch, seconds in enumerate((100.0, 2.0, 4.0)):
        pace.begin(epoch)
        assert pace.deadline_s("a") == pace.step_deadline_s() == float("inf")
        clock[0] += seconds
        pace.end_part("a")
        clock[0] += 1.0
        pace.end_epoch()
    pace.begin(3)
    begin_s = clock[0]
    assert pace.deadline_s("a") == begin_s + 1.5 * 2.0
    assert pace.step_deadline_s() == begin_s + 1.5 * 3.0
    assert pace.step_deadline_s(7.0) == 7.0 + 1.5 * 3.0
    clock[0] += 50.0
    pace.end_part("a")
    assert pace.deadline_s("a") == begin_s + 50.0 + 1.5 * 2.0


def test_the_first_warm_up_holds(clock):
    """Whatever epochs take later."""
    pace = Pace(alpha=1.0)
    for epoch, seconds in enumerate((9.0, 5.0, 6.0, 1.0, 1.0, 1.0, 1.0)):
        live(pace, clock, epoch, seconds)
    assert usual_s(pace, clock, 7) == 5.0
