"""Memory for a worker: its part of what there is, and never more than its control group may have."""

from pathlib import Path

import pytest
import torch

from gnnplan.profiles import memory

CPU = torch.device("cpu")


def test_workers_of_a_host_share_its_memory():
    """Two have half each."""
    whole = memory.worker_memory_bytes(CPU, 1)
    assert whole > 2**26
    assert memory.worker_memory_bytes(CPU, 2) == whole // 2


def test_a_control_group_limits_it(monkeypatch):
    """To its limit, and what is available to what the group has not used yet."""
    monkeypatch.setattr(memory, "_limiting_groups", lambda: [(1000, Path("job"))])
    monkeypatch.setattr(memory, "_used_bytes", lambda _: 400)
    assert memory.worker_memory_bytes(CPU, 4) == 250
    assert memory.available_bytes() == 600


@pytest.mark.parametrize("limit", [None, 2**62])
def test_without_a_limit_the_kernel_says_what_is_available(monkeypatch, limit):
    """Some, and no more than there is."""
    groups = [] if limit is None else [(limit, Path("job"))]
    monkeypatch.setattr(memory, "_limiting_groups", lambda: groups)
    assert 0 < memory.available_bytes() <= memory.worker_memory_bytes(CPU, 1)


def test_the_tightest_group_on_the_way_up_counts(monkeypatch, tmp_path):
    """Of limits the least, and of what they leave; files that are only cached are left."""
    for name, limit, used in (("job", "6000", "5900"), ("job/step", "5000", "800")):
        (tmp_path / name).mkdir(parents=True, exist_ok=True)
        (tmp_path / name / "memory.max").write_text(limit)
        (tmp_path / name / "memory.current").write_text(used)
        figures = "anon 1\ninactive_file 0\ntotal_inactive_file 100\n" if name == "job" else "inactive_file 100\n"
        (tmp_path / name / "memory.stat").write_text(figures)
    monkeypatch.setattr(memory, "groups_of", lambda _: (tmp_path / "job/step", tmp_path / "job", tmp_path))
    assert memory.worker_memory_bytes(CPU, 2) == 2500
    assert memory.available_bytes() == 6000 - 5800


def test_entries_of_a_groups_figures():
    """A name and a number a line."""
    assert memory._entry("inactive_file 4096") == ("inactive_file", 4096)
