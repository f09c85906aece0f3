"""Rates over time: drawn from two-state models, or those of a weather file."""

import numpy as np
import pytest

from gnnplan.planner.emulation.weather import Spell, Weather
from gnnplan.planner.weather.conditions import under_markov, under_sleeps, under_spells
from gnnplan.planner.weather.model import MarkovWeather, SleepWeather, TwoState, WorkerWeather
from gnnplan.planner.weather.sleeps import sleeps_s
from gnnplan.profiles.errors import UserError


def share_at(change_s, shares, at_s):
    return shares[np.searchsorted(change_s[np.isfinite(change_s)], at_s, side="right")]


def test_two_state_rates_are_slow_for_their_share_of_the_time():
    """In the long run slow / (fair + slow), in spells of the mean lengths; what has no model is fair."""
    state = TwoState(share=0.25, fair_s=6.0, slow_s=2.0)
    weather = MarkovWeather(workers=(WorkerWeather(compute=state), WorkerWeather(link=state)))
    drawn = under_markov(weather, num_epochs=5000, epoch_s=1.0)
    for worker, shares, others in ((0, drawn.compute, drawn.link), (1, drawn.link, drawn.compute)):
        when = drawn.change_s[worker]
        when = when[np.isfinite(when)]
        lengths = np.diff(when)
        slow = shares[worker, 1 : len(when)] == 0.25
        assert set(shares[worker].tolist()) == {0.25, 1.0}
        assert (others[worker] == 1.0).all()
        assert lengths[slow].sum() / lengths.sum() == pytest.approx(0.25, abs=0.03)
        assert lengths[slow].mean() == pytest.approx(2.0, rel=0.1)
        assert lengths[~slow].mean() == pytest.approx(6.0, rel=0.1)
        assert when[-1] > 5000


def test_replicas_differ_and_repeat():
    """The same replica is the same draw."""
    weather = MarkovWeather(workers=(WorkerWeather(compute=TwoState(share=0.5, fair_s=3, slow_s=3)),))
    first, again, other = (under_markov(weather, 100, 1.0, replica) for replica in (1, 1, 2))
    assert np.array_equal(first.change_s, again.change_s)
    assert first.change_s.shape != other.change_s.shape or not np.array_equal(first.change_s, other.change_s)


def test_spells_are_the_weather_files():
    """At every moment after training has begun, each worker has its host's shares, of a processor that is limited."""
    spells = (
        Spell(host="a", from_s=2, to_s=6, cpu=0.5),
        Spell(host="a", from_s=4, to_s=9, cpu=0.5, link=0.1),
        Spell(host="b", from_s=0, to_s=3, link=0.2),
    )
    weather, hosts = Weather(spells=spells), ["b", "a", "a"]
    limited = [True, True, False]
    drawn = under_spells(weather, hosts, num_epochs=4, begin_s=1.0, limited=limited)
    for worker, host in enumerate(hosts):
        for at_s in np.arange(1.05, 12, 0.1):
            cpu, link = weather.factors(host, at_s)
            expected = cpu if limited[worker] else 1.0
            assert share_at(drawn.change_s[worker], drawn.compute[worker], at_s - 1.0) == expected
            assert share_at(drawn.change_s[worker], drawn.link[worker], at_s - 1.0) == link
    assert not drawn.sleep_s.any()


def test_sleeps_leave_rates_alone():
    """Replica 0 is what the runtime injects."""
    weather = SleepWeather(probability=0.5)
    drawn = under_sleeps(weather, 3, 20, 1.0)
    assert np.array_equal(drawn.sleep_s[2], sleeps_s(weather, 2, 20, 1.0))
    assert (drawn.compute == 1).all()
    assert (drawn.link == 1).all()


@pytest.mark.parametrize(
    "state", [TwoState(share=0.5, fair_s=1e-4, slow_s=1e-4), TwoState(share=1e-8, fair_s=3, slow_s=3)]
)
def test_spells_too_short_for_the_run_are_refused(state):
    """Before anything is drawn: it would not end."""
    weather = MarkovWeather(workers=(WorkerWeather(), WorkerWeather(link=state)))
    with pytest.raises(UserError, match=r"training\.weather: link of worker 1 would change more than 10,000 times"):
        under_markov(weather, num_epochs=200, epoch_s=1.0)
