"""The benchmark of fluctuating hosts: what is looked at and how delays are compared."""

from itertools import pairwise

import numpy as np
import pytest

from benchmarks._fluctuation_runs import counted_s, measured_lengths_s
from benchmarks._fluctuation_settings import FULL, RunWeather, drawn_weather, weathers_of
from benchmarks.fluctuation import cuts
from planner.trace import Adjusted, Trace

HOSTS = [host.name for host in FULL.cluster().hosts]


def measured(epoch_s, adjustments=()):
    """A trace of two untimed epochs and these."""
    return Trace(
        origin="measured",
        plan_fingerprint="0",
        num_workers=2,
        spans=(),
        epoch_s=epoch_s,
        peak_bytes=(1, 1),
        losses=(0.0,) * (len(epoch_s) + 2),
        adjustments=adjustments,
    )


def adjusted(epoch, worker, seconds, set_up_s=0.0):
    """What a worker spent on deciding after an epoch."""
    return Adjusted(
        epoch=epoch,
        worker=worker,
        num_cached=0,
        changed=False,
        saved_s=0,
        bound_s=0,
        seconds=seconds,
        set_up_s=set_up_s,
    )


def test_deciding_counts_as_part_of_the_epoch():
    """That of the slowest worker; the epoch that is not timed is taken to be as long as the next one."""
    decided = (adjusted(3, 0, 0.5), adjusted(3, 1, 0.25, 1.0))
    lengths_s = measured_lengths_s(measured((2.0, 3.0, 4.0), decided))
    assert lengths_s.tolist() == [2.0, 2.0, 4.25, 4.0]


def test_only_epochs_within_the_time_looked_at_count():
    """The warm-up counts as time, not as epochs; what ends later is left out, whatever it took."""
    lengths_s = np.array([1.0, 1.0, 2.0, 3.0, 50.0])
    assert counted_s(lengths_s, RunWeather("calm")).tolist() == [2.0, 3.0, 50.0]
    assert counted_s(lengths_s, RunWeather("changes", until_s=7.0)).tolist() == [2.0, 3.0]
    with pytest.raises(AssertionError, match=r"within 3\.0 s of changes"):
        counted_s(lengths_s, RunWeather("changes", until_s=3.0))


def test_the_smaller_cut_counts():
    """A variant that is slow in calm gains less against the best static one's calm epoch than against its own."""
    best = {"mean_epoch_s": 5.0, "calm_epoch_s": 1.0}
    ours = cuts({"mean_epoch_s": 3.0, "calm_epoch_s": 2.0}, best)
    assert (ours["delay_s"], ours["delay_from_best_s"]) == (1.0, 2.0)
    assert (ours["cut"], ours["cut_from_best"], ours["least_cut"]) == (4.0, 2.0, 2.0)
    assert cuts(best, best)["least_cut"] == 1.0


def test_no_delay_is_below_a_hundredth_of_an_epoch():
    """Where a run under weather was as fast as in calm, noise does not make an endless cut."""
    best = {"mean_epoch_s": 5.0, "calm_epoch_s": 1.0}
    ours = cuts({"mean_epoch_s": 0.5, "calm_epoch_s": 0.5}, best)
    assert ours["delay_s"] == pytest.approx(0.005)
    assert ours["least_cut"] == pytest.approx(4.0 / 0.01)


def test_about_one_host_is_affected_at_any_time():
    """Several spells within the time looked at, none beside another, each on another host than the last."""
    spells = drawn_weather(HOSTS, FULL, 3.0).spells
    assert spells == drawn_weather(HOSTS, FULL, 3.0).spells
    assert spells[0].from_s == 3.0
    assert sum(spell.from_s < FULL.window_s for spell in spells) >= 4
    for before, spell in pairwise(spells):
        assert before.to_s <= spell.from_s <= before.to_s + FULL.pause_s[1]
        assert before.host != spell.host
        assert FULL.spell_s[0] <= spell.to_s - spell.from_s <= FULL.spell_s[1]
        assert 0.1 <= min(spell.link, spell.cpu) <= 0.5
    assert {spell.host for spell in spells} == set(HOSTS)


def test_all_variants_of_a_row_meet_the_same_weathers():
    """Sleeps in seconds, not in each variant's own epochs; the calm first, the others as the scale has them."""
    calm, *others = weathers_of(FULL, epoch_s=0.7, slowest_s=1.5)
    assert calm == RunWeather("calm")
    assert tuple(weather.name for weather in others) == FULL.weathers
    five, two, changes = others
    assert five.sleeps.seconds(123.0) == 5.0
    assert (two.sleeps.seconds(123.0), two.sleeps.duration_epochs) == (1.4, 5)
    assert changes.changes.spells[0].from_s == 6.0
    assert changes.until_s == 6.0 + FULL.window_s
