"""Passes: a slow spell in one of them does not become the price of what was timed in it."""

from itertools import count

import pytest

from gnnplan.profiles.measure import Timing
from gnnplan.profiles.passes import in_passes


def alone(flags):
    return flags


def probe(*medians_s):
    """Returns one timing after another; the test fails if it is called more often."""
    remaining = iter(medians_s)
    return lambda: (Timing(next(remaining), 0.1, 2),)


def test_passes_that_agree_are_averaged():
    """Two passes within a few percent: the mean of both, all repeats counted."""
    ((timing,),) = in_passes([probe(1.0, 1.1)], 2, alone)
    assert timing.median_s == pytest.approx(1.05)
    assert timing.repeats == 4


def test_slow_spell_is_outvoted():
    """Passes that differ fourfold: a third is taken, of that probe alone, and the median counts."""
    timings = in_passes([probe(1.0, 1.0), probe(4.0, 1.0, 1.02)], 2, alone)
    assert [timing.median_s for (timing,) in timings] == [1.0, 1.02]


def test_passes_go_over_all_probes_in_turn():
    """The second timing of a probe comes after the first of every other, so that a spell rarely hits both."""
    ticks = count()
    calls = []

    def ticking(name):
        def call():
            calls.append((next(ticks), name))
            return (Timing(1.0, 0.0, 1),)

        return call

    in_passes([ticking("a"), ticking("b")], 2, alone)
    assert [name for _, name in calls] == ["a", "b", "a", "b"]


def test_one_pass_is_taken_as_it_is():
    """With one pass nothing can disagree."""
    assert in_passes([probe(3.0)], 1, alone) == [(Timing(3.0, pytest.approx(0.1), 2),)]


def test_what_another_worker_doubts_is_repeated_here_too():
    """A flag set by any worker makes all repeat: a collective must be called by all."""
    ((timing,),) = in_passes([probe(1.0, 1.0, 1.0)], 2, lambda flags: [True] * len(flags))
    assert timing.repeats == 6


def test_left_out_probe_stays_out():
    """A probe that returned nothing is not called again and has no timings."""
    remaining = iter([()])
    assert in_passes([lambda: next(remaining)], 2, alone) == [()]
