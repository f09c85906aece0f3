"""Disturbance: what was timed meanwhile is timed again, everywhere alike and not for ever."""

from dataclasses import replace

import pytest

from gnnplan.profiles import patience as patience_module
from gnnplan.profiles.load import LoadWatch, MachineLoad
from gnnplan.profiles.patience import Patience


@pytest.fixture(autouse=True)
def no_pauses(monkeypatch):
    monkeypatch.setattr(patience_module.time, "sleep", lambda seconds: None)


def stealing(shares):
    """As if of each call in turn this share of its time was stolen."""
    remaining = iter(shares)
    return lambda mine: next(remaining)


def test_undisturbed_probe_is_called_once():
    """Nothing stolen: the first result counts."""
    results = iter("ab")
    assert Patience(stealing([0.01]))(lambda: next(results)) == "a"


def test_disturbed_probe_is_called_until_it_is_not():
    """Two disturbed calls are dropped for the third."""
    results = iter("abc")
    done = []
    patience = Patience(stealing([0.4, 0.1, 0.0]), lambda: done.append("probe"), num_left=5)
    assert patience(lambda: next(results)) == "c"
    assert patience.num_left == 3
    assert done == ["probe"]


def test_least_disturbed_call_counts_where_none_was_quiet():
    """Four calls at most; the second was disturbed least."""
    results = iter("abcd")
    assert Patience(stealing([0.4, 0.1, 0.2, 0.3]))(lambda: next(results)) == "b"


def test_patience_ends():
    """Once no call is left, what comes is taken."""
    results = iter("abcd")
    patience = Patience(stealing([0.4, 0.3, 0.5]), num_left=1)
    assert patience(lambda: next(results)) == "b"
    assert patience(lambda: next(results)) == "c"


def beside(monkeypatch, busy_s):
    """As if on two cores, in calls of one second each, everybody together used so many of the two, we half of one."""
    remaining = iter(busy_s)
    load = MachineLoad(machine="m", elapsed_s=1.0, busy_s=0.0, own_s=0.5, num_cores=2)
    monkeypatch.setattr(LoadWatch, "end", lambda self: replace(load, busy_s=next(remaining)))
    monkeypatch.setattr(patience_module.StealWatch, "share", lambda self: 0.0)


def test_what_others_disturbed_is_called_again(monkeypatch):
    """One busy program beside the first two calls; the third is quiet and counts, and its load alone is told."""
    beside(monkeypatch, [1.5, 1.5, 0.5])
    results = iter("abc")
    patience = Patience(lambda share: share)
    assert patience(lambda: next(results)) == "c"
    assert patience.others_share == 0.0


def test_what_others_disturbed_throughout_is_said(monkeypatch):
    """Where no call is quiet, one is kept, and others are said to have used half of the machine."""
    beside(monkeypatch, [1.5] * 4)
    patience = Patience(lambda share: share)
    patience(lambda: None)
    assert patience.others_share == 0.5


def test_workers_of_ours_disturb_nobody(monkeypatch):
    """What all workers use together is no load of others."""
    beside(monkeypatch, [1.5])
    patience = Patience(lambda share: share, total=lambda own: 3 * own)
    patience(lambda: None)
    assert (patience.num_left, patience.others_share) == (60, 0.0)


def test_patience_is_lost_where_waiting_was_in_vain(monkeypatch):
    """A program that stays costs a few pauses, not one for every probe."""
    beside(monkeypatch, [1.5] * 1000)
    calls = []
    patience = Patience(lambda share: share)
    for _ in range(100):
        patience(lambda: calls.append(1))
    assert patience.num_left == 0
    assert 100 < len(calls) < 120
