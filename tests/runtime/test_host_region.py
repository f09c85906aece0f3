"""A region never hands out rows that are half written, of another version, or of nobody; and it leaves nothing."""

import mmap
import threading
import time
from pathlib import Path

import pytest
import torch

from gnnplan.planner.joint_cache.layout import RegionLayout
from gnnplan.runtime.host_region import REGION_NAME, HostRegion
from tests.runtime.launched import launched

CPU = torch.device("cpu")


def views(num_rows=6, num_workers=2, width=4):
    """Every worker's view of one region with a single step `a`."""
    layout = RegionLayout(num_rows, {"a": width}, num_workers)
    memory = mmap.mmap(-1, layout.num_bytes)
    ranks = list(range(num_workers))
    return [HostRegion(memory, layout, ranks, rank) for rank in ranks]


def rows_of(*numbers):
    """A matrix [len(numbers), 4] whose rows are these numbers."""
    return torch.tensor(numbers, dtype=torch.float32)[:, None].repeat(1, 4)


def everything(region, version):
    """The first column of all rows."""
    return region.read("a", version, torch.arange(region.layout.num_rows), CPU)[:, 0].tolist()


def test_all_read_what_each_wrote():
    """Rows of several sources lie one after the other, chosen and in the order asked for; read in any order."""
    first, second = views()
    first.write("a", 1, 0, (rows_of(10, 11, 12), torch.tensor([2, 0])), (rows_of(20, 21), torch.tensor([1])))
    second.write("a", 1, 3, (rows_of(30, 31, 32), torch.arange(3)))
    for region in (first, second):
        assert everything(region, 1) == [12, 10, 21, 30, 31, 32]
        assert region.read("a", 1, torch.tensor([5, 0]), CPU)[:, 0].tolist() == [32, 12]


def test_nothing_is_read_before_everybody_has_written():
    """A worker that has written none, or an older version, is named."""
    first, second = views()
    first.write("a", 1, 0, (rows_of(1), torch.arange(1)))
    with pytest.raises(RuntimeError, match="a: rows of version 1 are not there: worker 1 has written none"):
        first.read("a", 1, torch.tensor([0]), CPU)
    second.write("a", 1, 1)
    assert first.read("a", 1, torch.tensor([0]), CPU)[0, 0] == 1
    first.write("a", 2, 0, (rows_of(2), torch.arange(1)))
    with pytest.raises(RuntimeError, match="version 2 are not there: worker 1 has written 1"):
        first.read("a", 2, torch.tensor([0]), CPU)
    with pytest.raises(RuntimeError, match="version 1 are not there: worker 0 has written 2"):
        second.read("a", 1, torch.tensor([0]), CPU)


def test_a_writer_that_fails_midway_leaves_nothing_readable():
    """Its rows stay under way, whatever part of them is there."""
    first, second = views()
    second.write("a", 1, 3)
    with pytest.raises((IndexError, RuntimeError), match="index"):
        first.write("a", 1, 0, (rows_of(1, 2), torch.arange(2)), (rows_of(3), torch.tensor([7])))
    with pytest.raises(RuntimeError, match="worker 0 is writing"):
        second.read("a", 1, torch.tensor([0]), CPU)


def test_no_reader_ever_sees_half_a_write():
    """While a thread writes version after version, whatever is read is of one version through and through."""
    (writer,) = views(num_rows=20_000, num_workers=1, width=16)
    reader = HostRegion(writer.memory, writer.layout, [0], 0)
    places, versions = torch.arange(20_000), 60
    seen = []

    def read():
        while not seen or seen[-1] < versions:
            version = int(reader._stamps[0, 0])
            try:
                found = reader.read("a", version, places, CPU)
            except RuntimeError:
                continue  # it was being written, or had been again
            if version > 0:
                assert found.min() == found.max() == version
                seen.append(version)

    thread = threading.Thread(target=read)
    thread.start()
    for version in range(1, versions + 1):
        writer.write("a", version, 0, (torch.full((20_000, 16), float(version)), places))
    thread.join(60)
    assert not thread.is_alive()
    assert seen[-1] == versions


WORKER = """
import os, signal, sys, time
from datetime import timedelta
from pathlib import Path

import numpy as np
import torch
import torch.distributed as dist

from gnnplan.planner.joint_cache.layout import RegionLayout
from gnnplan.profiles.launch import emit, reporting_errors
from gnnplan.runtime import host_region, shared_memory
from gnnplan.runtime.host_region import HostRegion

folder, how, rank = Path(sys.argv[1]), sys.argv[2], int(os.environ["RANK"])
with reporting_errors(folder, rank):
    dist.init_process_group("gloo", timeout=timedelta(seconds=60))
    hosts = [0, 0, 1]
    layout = RegionLayout(4, {"a": 3}, hosts.count(hosts[rank]))
    ranks = [r for r, host in enumerate(hosts) if host == hosts[rank]]
    group = shared_memory.group_of_host(hosts, rank, 60.0)
    if how == "too small" and rank == 0:
        shared_memory.available_bytes = lambda: 10
    is_first = rank == ranks[0]
    what = "this host's region for halo rows"
    descriptor = shared_memory.make_memory(layout.num_bytes, what, host_region.REGION_NAME) if is_first else None
    memory = shared_memory.share_memory(descriptor, layout.num_bytes, ranks, group)
    region = HostRegion(memory, layout, ranks, rank, group)
    count = 4 // len(ranks)
    x = torch.full((count, 3), float(rank + 1))
    region.write("a", 1, count * ranks.index(rank), (x, torch.arange(count)))
    region.meet()
    found = region.read("a", 1, torch.arange(4), torch.device("cpu"))[:, 0].tolist()
    maps = Path("/proc/self/maps").read_text().count(host_region.REGION_NAME)
    emit({"rank": rank, "found": found, "maps": maps, "pid": os.getpid()})
    dist.barrier()
    if how == "killed":
        if rank == 1:
            os.kill(os.getpid(), signal.SIGKILL)
        region.meet()
        dist.barrier()
    dist.destroy_process_group()
"""


def no_region_is_left(folder, within_s=20.0):
    """Whether no process of a run has a region in its memory, nor any file is one; killed ones take a moment to end."""
    end_s = time.monotonic() + within_s
    while found := regions_held(folder):
        if time.monotonic() > end_s:
            raise AssertionError(found)
        time.sleep(0.05)
    return True


def regions_held(folder):
    """Processes whose command names the folder and that have a region in their memory, and files of one."""
    held = []
    for maps in Path("/proc").glob("[0-9]*/maps"):
        try:
            is_of_run = str(folder).encode() in (maps.parent / "cmdline").read_bytes()
            held += [str(maps)] if is_of_run and REGION_NAME in maps.read_text() else []
        except OSError:
            continue
    return held + [str(path) for folder in ("/dev/shm", "/tmp") for path in Path(folder).glob(f"*{REGION_NAME}*")]


@pytest.mark.distributed
@pytest.mark.parametrize("how", ["to the end", "killed"])
def test_the_workers_of_a_host_share_one_region_and_leave_none(tmp_path, how):
    """Each host has its own; when all is over, or a worker was killed with rows in it, no region is left."""
    events, error = launched("a_region_worker", WORKER, tmp_path, how)
    assert [event["found"] for event in events] == [[1, 1, 2, 2], [1, 1, 2, 2], [3, 3, 3, 3]]
    assert all(event["maps"] > 0 for event in events)
    assert (error is None) == (how == "to the end")
    assert error is None or error.startswith("worker 1 was ended by SIGKILL")
    assert no_region_is_left(tmp_path)


@pytest.mark.distributed
def test_a_host_without_room_for_its_region_ends_the_run(tmp_path):
    """The worker that would make it says so; its peers are not blamed, and nothing is left."""
    events, error = launched("a_region_worker", WORKER, tmp_path, "too small")
    assert {event["rank"] for event in events} <= {2}  # alone on its host
    assert error.startswith("this host's region for halo rows takes")
    assert no_region_is_left(tmp_path)
