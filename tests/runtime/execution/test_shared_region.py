"""A region never hands out rows that are half written, of another version, or of nobody; and it leaves nothing."""

import mmap
import threading

import pytest
import torch

from gnnplan.planner.program.region import RegionLayout
from gnnplan.runtime.execution.region import HostRegion
from tests.runtime.launched import launched
from tests.runtime.regions import no_region_is_left


def views(num_rows=6, num_workers=2, width=4):
    """Every worker's view of one region with a single cell `a`."""
    layout = RegionLayout({"a": (num_rows, width)}, (0,) * num_workers, 0)
    memory = mmap.mmap(-1, layout.num_bytes)
    return [HostRegion(memory, layout, rank) for rank in range(num_workers)]


def put(region, first, *numbers):
    """Writes rows that are these numbers, from a row on."""
    rows = torch.tensor(numbers, dtype=torch.float32)[:, None].repeat(1, 4)
    with region.writing("a"):
        region.rows("a")[first : first + len(rows)].copy_(rows)


def everything(region, rows=6):
    """The first column of all rows."""
    return region.read("a", torch.arange(rows))[:, 0].tolist()


def test_all_read_what_each_wrote():
    """Read in any order, by everybody alike."""
    first, second = views()
    put(first, 0, 12, 10, 21)
    put(second, 3, 30, 31, 32)
    for region in (first, second):
        assert everything(region) == [12, 10, 21, 30, 31, 32]
        assert region.read("a", torch.tensor([5, 0]))[:, 0].tolist() == [32, 12]


def test_nothing_is_read_before_everybody_has_written():
    """A worker that has written none, or more or less often than the reader, is named."""
    first, second = views()
    with pytest.raises(RuntimeError, match="a: rows of version 0 are not there: worker 0 has written none"):
        everything(first)
    put(first, 0, 1)
    with pytest.raises(RuntimeError, match="a: rows of version 1 are not there: worker 1 has written none"):
        everything(first)
    put(second, 1)
    assert everything(first)[0] == 1
    put(first, 0, 2)
    with pytest.raises(RuntimeError, match="version 2 are not there: worker 1 has written 1"):
        everything(first)
    with pytest.raises(RuntimeError, match="version 1 are not there: worker 0 has written 2"):
        everything(second)


def test_a_writer_that_fails_midway_leaves_nothing_readable():
    """Its rows stay under way, whatever part of them is there."""
    first, second = views()
    put(second, 3, 3)
    with pytest.raises(RuntimeError, match="size"), first.writing("a"):
        first.rows("a")[:2].copy_(torch.zeros(3, 4))
    with pytest.raises(RuntimeError, match="worker 0 is writing"):
        everything(second)


def test_no_reader_ever_sees_half_a_write():
    """While a thread writes version after version, whatever is read is of one version through and through."""
    num_rows, versions = 20_000, 60
    (writer,) = views(num_rows, num_workers=1, width=16)
    places, seen = torch.arange(num_rows), []

    def read():
        while not seen or seen[-1] < versions:
            writer_saw = dict(writer._versions)
            try:
                found = writer.read("a", places)
            except RuntimeError:
                continue  # it was being written, or had been again
            assert found.min() == found.max() >= writer_saw["a"]
            seen.append(int(found[0, 0]))

    thread = threading.Thread(target=read)
    thread.start()
    for version in range(1, versions + 1):
        with writer.writing("a"):
            writer.rows("a").fill_(float(version))
    thread.join(60)
    assert not thread.is_alive()
    assert seen[-1] == versions


def test_cells_lie_apart_and_begin_at_cache_lines():
    """Nothing of one is in another's bytes; a host without rows has stamps alone."""
    layout = RegionLayout({"a": (3, 5), "b": (0, 7), "c": (4, 2)}, (0, 1, 0), 0)
    assert [layout.offset(name) for name in "abc"] == [64, 128, 128]
    assert layout.num_bytes == 192
    assert layout.ranks == (0, 2)
    assert layout.has_rows
    empty = RegionLayout({"a": (0, 5)}, (0, 1, 0), 1)
    assert not empty.has_rows
    assert empty.num_bytes == 64


WORKER = """
import os, signal, sys
from datetime import timedelta
from pathlib import Path

import torch
import torch.distributed as dist

from gnnplan.planner.program.region import RegionLayout
from gnnplan.profiles.launch import emit, reporting_errors
from gnnplan.runtime import shared_memory
from gnnplan.runtime.execution.peers import REGION_NAME, Workers
from gnnplan.runtime.execution.region import HostRegion
from gnnplan.runtime.recorder import Recorder

folder, how, rank = Path(sys.argv[1]), sys.argv[2], int(os.environ["RANK"])
with reporting_errors(folder, rank):
    dist.init_process_group("gloo", timeout=timedelta(seconds=60))
    hosts = (0, 0, 1)
    layout = RegionLayout({"a": (4, 3)}, hosts, hosts[rank])
    if how == "too small" and rank == 0:
        shared_memory.available_bytes = lambda: 10
    workers = Workers(Recorder(torch.device("cpu")), 60.0)
    region = HostRegion(workers.host_memory(layout), layout, rank)
    count = 4 // len(layout.ranks)
    first = count * layout.ranks.index(rank)
    with region.writing("a"):
        region.rows("a")[first : first + count] = rank + 1.0
    workers.host_barrier()
    found = region.read("a", torch.arange(4))[:, 0].tolist()
    maps = Path("/proc/self/maps").read_text().count(REGION_NAME)
    emit({"rank": rank, "found": found, "maps": maps, "pid": os.getpid()})
    dist.barrier()
    if how == "killed":
        if rank == 1:
            os.kill(os.getpid(), signal.SIGKILL)
        workers.host_barrier()
        dist.barrier()
    dist.destroy_process_group()
"""


@pytest.mark.long
@pytest.mark.distributed
@pytest.mark.parametrize("how", ["to the end", "killed"])
def test_the_workers_of_a_host_share_one_region_and_leave_none(tmp_path, how):
    """Each host has its own; when all is over, or a worker was killed with rows in it, no region is left."""
    events, error = launched("a_shared_region_worker", WORKER, tmp_path, how)
    assert [event["found"] for event in events] == [[1, 1, 2, 2], [1, 1, 2, 2], [3, 3, 3, 3]]
    assert all(event["maps"] > 0 for event in events)
    assert (error is None) == (how == "to the end")
    assert error is None or error.startswith("worker 1 was ended by SIGKILL")
    assert no_region_is_left(tmp_path)


@pytest.mark.long
@pytest.mark.distributed
def test_a_host_without_room_for_its_region_ends_the_run(tmp_path):
    """The worker that would make it says so; its peers are not blamed, and nothing is left."""
    events, error = launched("a_shared_region_worker", WORKER, tmp_path, "too small")
    assert {event["rank"] for event in events} <= {2}  # alone on its host
    assert error.startswith("this host's region for halo rows takes")
    assert no_region_is_left(tmp_path)
