"""A worker starts only where its device has what the plan said that it needs."""

from types import SimpleNamespace

import pytest
import torch

from gnnplan.profiles.errors import UserError
from gnnplan.runtime import room

CPU = torch.device("cpu")


def plan_of(*peaks, region_bytes=0, pinned=None):
    """What is read of a plan whose workers need so many bytes."""
    return SimpleNamespace(
        prediction=SimpleNamespace(workers=[SimpleNamespace(peak_bytes=peak) for peak in peaks]),
        placement=SimpleNamespace(workers=[SimpleNamespace(host=f"h{n}") for n in range(len(peaks))]),
        pinned_bytes=lambda: pinned or {},
        region_layouts=lambda: {"h1": SimpleNamespace(num_bytes=region_bytes)} if region_bytes else {},
    )


@pytest.mark.parametrize(("peak", "fits"), [(999, True), (1000, True), (1001, False)])
def test_a_worker_needs_its_peak(monkeypatch, peak, fits):
    """Not one byte less; and the line says who, how much was planned and how much is there."""
    asked = []
    monkeypatch.setattr(room, "worker_memory_bytes", lambda device, count: asked.append((device, count)) or 1000)
    if fits:
        room.check_room(plan_of(0, peak), 1, CPU, 2)
    else:
        with pytest.raises(
            UserError, match=r"worker 1 \(h1\) was planned to need 1,001 bytes .* finds 1,000; plan again"
        ):
            room.check_room(plan_of(0, peak), 1, CPU, 2)
    assert asked == [(CPU, 2)]


def test_a_cpu_has_its_hosts_region_too(monkeypatch):
    """Shared by the host's workers; a GPU's memory is its own."""
    monkeypatch.setattr(room, "worker_memory_bytes", lambda device, count: 1000)
    room.check_room(plan_of(0, 900, region_bytes=200), 1, CPU, 2)
    room.check_room(plan_of(1000, 0, region_bytes=200), 0, CPU, 2)
    with pytest.raises(UserError, match="planned to need 1,001 bytes"):
        room.check_room(plan_of(0, 900, region_bytes=202), 1, CPU, 2)
    monkeypatch.setattr(torch.cuda, "mem_get_info", lambda device: (900, 1000))
    room.check_room(plan_of(0, 900, region_bytes=202), 1, torch.device("cuda", 0), 2)


def test_of_a_gpu_what_is_free_counts(monkeypatch):
    """What other processes hold of it cannot be had."""
    monkeypatch.setattr(torch.cuda, "mem_get_info", lambda device: (500, 1000))
    with pytest.raises(UserError, match="finds 500"):
        room.check_room(plan_of(501), 0, torch.device("cuda", 0), 1)
