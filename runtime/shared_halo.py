"""One worker's part in its host's region: what it writes there, and where it finds its own halo rows."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from gnnplan.planner.shard import Shard
from gnnplan.profiles.kernels import pool
from gnnplan.runtime.comm import HaloExchanger
from gnnplan.runtime.host_region import HostRegion


@dataclass(frozen=True)
class _Found:
    """Halo rows to be read: int64 positions in the halo, on the device, and their rows in the region, on the CPU."""

    positions: Tensor
    places: Tensor


@dataclass(frozen=True)
class SharedHalo:
    """Fills halos from a region, and the region where all rows travel.

    Shapes: n local rows, h halo rows, of which c are received where all rows travel.

    Args:
        exchanger: of those c rows.
        received: int64 [c], their positions in the halo.
        own_rows: int64, local rows to write.
        relayed: int64, rows among the c received to write: no other worker of the host is sent them.
        first: row of the region at which the rows begin that this worker writes.
        others_write: halo rows that other workers write.
        all_shared: all halo rows that the region has.
    """

    region: HostRegion
    exchanger: HaloExchanger
    received: Tensor
    own_rows: Tensor
    relayed: Tensor
    first: int
    others_write: _Found
    all_shared: _Found

    @classmethod
    def of(cls, shard: Shard, region: HostRegion, whole: HaloExchanger) -> SharedHalo:
        """As the shard was cut; `whole` exchanges all halo rows."""
        device, is_shared = whole.recorder.device, shard.shared_halo >= 0

        def on_device(numbers: np.ndarray) -> Tensor:
            return torch.from_numpy(numbers).to(device)

        def found(mask: np.ndarray) -> _Found:
            positions = np.flatnonzero(mask)
            return _Found(on_device(positions), torch.from_numpy(shard.shared_halo[positions]))

        relayed = np.flatnonzero(shard.received_halo & is_shared)
        relayed = relayed[np.argsort(shard.shared_halo[relayed])]  # as they lie in the region
        exchanger = part_of(whole, shard, shard.received_sent, shard.received_halo)
        return cls(
            region,
            exchanger,
            on_device(np.flatnonzero(shard.received_halo)),
            on_device(shard.shared_rows),
            on_device((np.cumsum(shard.received_halo) - 1)[relayed]),
            shard.shared_first,
            found(is_shared & ~shard.received_halo),
            found(is_shared),
        )

    def exchange(self, x: Tensor, name: str, version: int) -> Tensor:
        """The halo rows [h, width] of `x` [n, width], each sent once to a host. Every worker must call it."""
        recorder = self.exchanger.recorder
        received = self.exchanger.fetch(x, name)
        with recorder.span(f"{name}/region/write/forward"):
            self.region.write(name, version, self.first, (x, self.own_rows), (received, self.relayed))
        with recorder.span(f"{name}/region/meet/forward", "communicate"):
            self.region.meet()
        with recorder.span(f"{name}/region/read/forward"):
            halo = pool.empty(x.device, len(self.received) + len(self.others_write.positions), x.shape[1])
            halo.index_copy_(0, self.received, received)
            del received  # its memory serves what is read next
            self._read(halo, name, version, self.others_write)
        return halo

    def find(self, halo: Tensor, name: str, version: int) -> None:
        """Puts all halo rows that the region has into the halo [h, width]."""
        self._read(halo, name, version, self.all_shared)

    def _read(self, halo: Tensor, name: str, version: int, found: _Found) -> None:
        halo.index_copy_(0, found.positions, self.region.read(name, version, found.places, halo.device))


def part_of(whole: HaloExchanger, shard: Shard, sent: np.ndarray, received: np.ndarray) -> HaloExchanger:
    """Exchanges some of the rows: bool [s] of those sent and bool [h] of those received, alike at both ends."""

    def counted(mask: np.ndarray, counts: np.ndarray) -> list[int]:
        peer = np.repeat(np.arange(len(counts)), counts)
        return np.bincount(peer[mask], minlength=len(counts)).tolist()

    rows = torch.from_numpy(np.flatnonzero(sent)).to(whole.send_rows.device)
    return HaloExchanger(
        whole.send_rows[rows],
        counted(sent, shard.send_counts),
        counted(received, shard.recv_counts),
        whole.num_local,
        whole.recorder,
    )
