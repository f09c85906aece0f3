"""Stolen processor time: what was timed meanwhile is timed again, everywhere alike and not for ever."""

import pytest

from gnnplan.profiles import steal
from gnnplan.profiles.steal import Patience, StealWatch


@pytest.fixture(autouse=True)
def no_pauses(monkeypatch):
    monkeypatch.setattr(steal.time, "sleep", lambda seconds: None)


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


def test_share_is_of_all_cores(monkeypatch):
    """One second of two cores' two, half of it stolen."""
    monkeypatch.setattr(steal.os, "cpu_count", lambda: 2)
    monkeypatch.setattr(steal.time, "monotonic", lambda: 11.0)
    monkeypatch.setattr(steal, "_stolen_s", lambda: 4.5)
    assert StealWatch(begun_s=10.0, stolen_s=3.5).share() == 0.5


def test_steal_is_read_from_the_kernel(tmp_path):
    """The eighth figure after the label, in clock ticks; nothing where there is no such file."""
    stat = tmp_path / "stat"
    stat.write_text("cpu  4646408 315408 499715 3743455 5842 0 25713 500 0 0\ncpu0 1 2 3\n")
    assert steal._stolen_s(stat) == 500 / steal.os.sysconf("SC_CLK_TCK")
    assert steal._stolen_s(tmp_path / "none") == 0.0
