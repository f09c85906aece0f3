"""The memory that the workers of one host share to keep halo rows in: a row once, written by one, read by all."""

from __future__ import annotations

import mmap
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
import torch
import torch.distributed as dist
from torch import Tensor

from gnnplan.planner.joint_cache.decision import CacheDecision
from gnnplan.planner.joint_cache.layout import RegionLayout
from gnnplan.planner.shard import Shard
from gnnplan.planner.steps import Program
from gnnplan.profiles.kernels.dense import gather_rows
from gnnplan.runtime.sampling.page_lock import CudaRegistrar
from gnnplan.runtime.shared_memory import group_of_host, make_memory, share_memory

REGION_NAME = "gnnplan-region"
"""As which it shows in /proc/PID/maps."""
_WHAT = "this host's region for halo rows"
_NEVER, _UNDER_WAY = 0, -1


@dataclass
class HostRegion:
    """One worker's view of its host's region.

    A writer stamps a step's rows with a version, and as under way while it writes; versions begin with 1. A reader
    asks for a version and takes rows only where every worker of the host has that one stamped before and after: never
    rows that are half written, nor older or newer ones. Who writes and who reads when is the exchanger's to settle.

    Args:
        memory: of `layout.num_bytes`.
        ranks: of the host's workers, ascending; `rank` is one of them.
        group: theirs; None where one is alone.
    """

    memory: mmap.mmap
    layout: RegionLayout
    ranks: Sequence[int]
    rank: int
    group: dist.ProcessGroup | None = None
    _stamps: Tensor = field(init=False)
    _rows: dict[str, Tensor] = field(init=False)
    _numbers: dict[str, int] = field(init=False)

    def __post_init__(self) -> None:
        layout = self.layout
        shape = (len(layout.widths), layout.num_workers)
        self._stamps = torch.from_numpy(np.ndarray(shape, np.int64, self.memory))
        self._numbers = {name: number for number, name in enumerate(layout.widths)}
        self._rows = {
            name: torch.from_numpy(
                np.ndarray((layout.num_rows, width), np.float32, self.memory, layout.offset(self._numbers[name]))
            )
            for name, width in layout.widths.items()
        }

    @classmethod
    def open(
        cls, shard: Shard, program: Program, cache: CacheDecision, device: torch.device, *, timeout_s: float = 300.0
    ) -> HostRegion | None:
        """The region of this process's host, all workers of the run calling it; None where nothing is shared.

        Args:
            timeout_s: longest wait for the host's other workers, now and whenever they meet.

        Raises:
            UserError: the host has less memory left than its region takes.
        """
        if cache.region is None:
            return None
        hosts = shard.host_of.tolist()
        layout = RegionLayout.of(program, cache, hosts, hosts[shard.rank])
        ranks = [rank for rank, host in enumerate(hosts) if host == hosts[shard.rank]]
        group = group_of_host(hosts, shard.rank, timeout_s)
        is_first = shard.rank == ranks[0]
        descriptor = make_memory(layout.num_bytes, _WHAT, REGION_NAME) if is_first else None
        memory = share_memory(descriptor, layout.num_bytes, ranks, group)
        region = cls(memory, layout, ranks, shard.rank, group)
        if device.type == "cuda":
            _page_lock(memory)
        return region

    def write(self, name: str, version: int, first: int, *sources: tuple[Tensor, Tensor]) -> None:
        """Writes rows of a step, one source's after the other's, from row `first` on, and stamps them.

        Args:
            sources: (x [n, width], rows int64 [k] of it to write, on x's device) each.
        """
        stamp = self._stamps[self._numbers[name], self.ranks.index(self.rank)]
        stamp.fill_(_UNDER_WAY)
        for x, rows in sources:
            place = self._rows[name][first : first + len(rows)]
            if x.device.type == "cpu":
                torch.index_select(x, 0, rows, out=place)
            else:
                place.copy_(gather_rows(x, rows))  # waits for the device
            first += len(rows)
        stamp.fill_(version)

    def read(self, name: str, version: int, rows: Tensor, device: torch.device) -> Tensor:
        """Rows [k, width] of a step, by their numbers int64 [k] on the CPU, as they are in a version."""
        self._check(name, version)
        found = gather_rows(self._rows[name], rows)
        self._check(name, version)
        return found.to(device)

    def meet(self) -> None:
        """Waits for the host's other workers."""
        if self.group is not None:
            dist.barrier(self.group)

    def _check(self, name: str, version: int) -> None:
        for rank, stamp in zip(self.ranks, self._stamps[self._numbers[name]].tolist()):
            if stamp != version:
                has = {_NEVER: "has written none", _UNDER_WAY: "is writing"}.get(stamp, f"has written {stamp}")
                raise RuntimeError(f"{name}: rows of version {version} are not there: worker {rank} {has}")


def _page_lock(memory: mmap.mmap) -> None:
    """Lets a GPU's rows be written into it directly; where the driver will not, they are staged.

    Reading has no use for it: rows are gathered into memory of this process first. It ends with the process.
    """
    address = torch.frombuffer(memory, dtype=torch.uint8).data_ptr()
    CudaRegistrar().register(address, len(memory))
