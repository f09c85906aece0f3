"""Memory for a worker: its part of what there is, and never more than its control group may have."""

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
    monkeypatch.setattr(memory, "_cgroup_limit_bytes", lambda: 1000)
    monkeypatch.setattr(memory, "_cgroup_used_bytes", lambda: 400)
    assert memory.worker_memory_bytes(CPU, 4) == 250
    assert memory.available_bytes() == 600


@pytest.mark.parametrize("limit", [None, 2**62])
def test_without_a_limit_the_kernel_says_what_is_available(monkeypatch, limit):
    """Some, and no more than there is."""
    monkeypatch.setattr(memory, "_cgroup_limit_bytes", lambda: limit)
    assert 0 < memory.available_bytes() <= memory.worker_memory_bytes(CPU, 1)


def test_entries_of_a_groups_figures():
    """A name and a number a line."""
    assert memory._entry("inactive_file 4096") == ("inactive_file", 4096)
    assert memory._cgroup_used_bytes() >= 0
