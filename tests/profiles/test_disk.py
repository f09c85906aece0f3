"""What a disk is found to give."""

import os

from gnnplan.profiles import disk
from gnnplan.profiles.disk import disk_rates


def test_rates_are_of_whole_files(tmp_path, monkeypatch):
    """By a clock that says a second for a file's writing, a quarter for its reading, and half one for that of pages."""
    clock = iter([0.0, 1.0, 5.0, 5.25, 6.0, 6.5] * 3)
    monkeypatch.setattr(disk.time, "perf_counter", lambda: next(clock))
    rates = disk_rates(tmp_path, 2**20)
    assert (rates.write_bytes_per_s, rates.read_bytes_per_s) == (2**20, 2**22)
    assert rates.scattered_bytes_per_s == 2**19  # of every fourth page
    assert os.listdir(tmp_path) == []


def test_one_slow_file_in_three_changes_nothing(tmp_path, monkeypatch):
    """Medians are told."""
    one, slow = [0.0, 1.0, 5.0, 5.25, 6.0, 6.5], [0.0, 60.0, 100.0, 160.0, 200.0, 290.0]
    clock = iter([*one, *slow, *one])
    monkeypatch.setattr(disk.time, "perf_counter", lambda: next(clock))
    assert disk_rates(tmp_path, 2**20).write_bytes_per_s == 2**20


def test_where_no_file_can_be_written(tmp_path):
    """There are no rates."""
    assert disk_rates(tmp_path / "absent") is None
