"""Stolen processor time, as the kernel counts it."""

from gnnplan.profiles import steal
from gnnplan.profiles.steal import StealWatch


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
