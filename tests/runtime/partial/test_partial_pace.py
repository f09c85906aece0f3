"""T0 is what parts of an epoch take when nobody is missing: of the warm-up, and after a later one as weather clears."""

import time
from types import SimpleNamespace

import numpy as np
import pytest

from runtime.partial.hybrid import PartialHybridTrainer
from runtime.partial.pace import Pace


@pytest.fixture
def clock(monkeypatch):
    """The moment that it is, in a list."""
    now_s = [0.0]
    monkeypatch.setattr(time, "monotonic", lambda: now_s[0])
    return now_s


def live(pace, clock, epoch, seconds, *, disturbed=False):
    """An epoch of one part."""
    pace.begin(epoch)
    if disturbed:
        pace.disturbed()
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


def test_a_new_split_is_warmed_up_for(clock):
    """What was usual is forgotten; the first epoch is not counted, then deadlines are those of the new epochs."""
    pace = Pace(alpha=1.0)
    for epoch, seconds in enumerate((1.0, 1.0, 1.0, 1.0, 50.0, 9.0, 3.0)):
        if epoch == 4:
            pace.warm_up_from(4)
        pace.begin(epoch)
        assert (pace.deadline_s("a") == float("inf")) == (epoch != 3)
        clock[0] += seconds
        pace.end_part("a")
        pace.end_epoch()
    pace.begin(7)
    assert pace.deadline_s("a") == pace.step_deadline_s() == clock[0] + 2 * 3.0


def warmed_up_again(clock, *seconds):
    """A pace after its second warm-up, from epoch 4 to 6."""
    pace = Pace(alpha=1.0)
    for epoch in range(4):
        live(pace, clock, epoch, 1.0)
    pace.warm_up_from(4)
    for epoch, taken_s in enumerate(seconds, 4):
        live(pace, clock, epoch, taken_s)
    return pace


def test_what_was_measured_in_bad_weather_is_not_kept(clock):
    """T0 falls to what three epochs in a row took at most, and does not rise with the next spell."""
    pace = warmed_up_again(clock, 50.0, 9.0, 8.0)
    for epoch, (taken_s, expected_s) in enumerate(
        [(3.0, 8.0), (3.5, 8.0), (2.0, 8.0), (1.0, 3.5), (9.0, 3.5), (9.0, 3.5), (9.0, 3.5)], 7
    ):
        assert usual_s(pace, clock, epoch) == expected_s
        live(pace, clock, epoch, taken_s)
    assert usual_s(pace, clock, 14) == 3.5


def test_disturbed_epochs_do_not_count(clock):
    """Those with a sleep or without a peer may be short as well as long; where there is no other, all is waited for."""
    pace = warmed_up_again(clock, 50.0, 9.0, 8.0)
    for epoch in range(7, 12):
        live(pace, clock, epoch, 1.0, disturbed=True)
    assert usual_s(pace, clock, 12) == 8.0
    pace.warm_up_from(12)
    for epoch in range(12, 15):
        live(pace, clock, epoch, 1.0, disturbed=True)
    assert usual_s(pace, clock, 15) == float("inf")
    live(pace, clock, 15, 4.0)
    assert usual_s(pace, clock, 16) == 4.0


def test_the_first_warm_up_holds(clock):
    """As long as the split stays, T0 does."""
    pace = Pace(alpha=1.0)
    for epoch, seconds in enumerate((9.0, 5.0, 6.0, 1.0, 1.0, 1.0, 1.0)):
        live(pace, clock, epoch, seconds)
    assert usual_s(pace, clock, 7) == 5.0


def test_a_worker_that_slept_measures_nothing():
    """The epochs of its own sleeps, and only those."""
    trainer, disturbed = PartialHybridTrainer.__new__(PartialHybridTrainer), []
    trainer.sleeps_s = np.array([0.0, 1e-3])
    for epoch in range(2):
        trainer.lateness = SimpleNamespace(pace=SimpleNamespace(disturbed=lambda epoch=epoch: disturbed.append(epoch)))
        trainer._sleep(epoch)
    assert disturbed == [1]
