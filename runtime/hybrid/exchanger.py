"""The exchange of one level: rows of the whole halo's exchange that their receivers do not make themselves."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
import torch
import torch.distributed as dist
from torch import Tensor

from gnnplan.planner.shard import Shard
from gnnplan.profiles.kernels import pool
from gnnplan.profiles.kernels.dense import gather_rows
from gnnplan.runtime.comm import HaloExchanger
from gnnplan.runtime.recorder import Recorder


@dataclass
class LevelExchanger(HaloExchanger):
    """A `HaloExchanger` of a part of the halo, that can tell when each owner's rows were there.

    Args:
        times_arrivals: whether it looks (gloo only).
        arrived_s: float64 [W] by step, seconds from the begin of its last fetch; 0 where nothing was to come.
    """

    times_arrivals: bool = False
    arrived_s: dict[str, np.ndarray] = field(default_factory=dict)
    _order: list[int] = field(default_factory=list)

    @classmethod
    def whole(cls, shard: Shard, recorder: Recorder) -> LevelExchanger:
        """The exchange of all halo rows."""
        plain = HaloExchanger.from_shard(shard, recorder)
        return cls(plain.send_rows, plain.send_counts, plain.recv_counts, plain.num_local, recorder)

    def part(self, sent: np.ndarray, received: np.ndarray, *, times_arrivals: bool) -> LevelExchanger:
        """The exchange of some of the rows: bool [s] of those sent, bool [h] of those received."""
        chosen = torch.from_numpy(np.flatnonzero(sent)).to(self.send_rows.device)
        return LevelExchanger(
            self.send_rows[chosen],
            _count(sent, self.send_counts),
            _count(received, self.recv_counts),
            self.num_local,
            self.recorder,
            times_arrivals and _is_gloo(),
        )

    def agree(self, wanted: np.ndarray) -> np.ndarray:
        """bool [l, s]: what the receivers want of the rows sent, from what this worker wants, bool [l, h].

        Every worker must call it. Owners send what they were told to, so sender and receiver cannot disagree.
        """
        if not len(wanted):
            return np.empty((0, len(self.send_rows)), bool)
        bits = torch.from_numpy(np.ascontiguousarray(np.packbits(wanted.T, axis=1))).to(self.send_rows.device)
        told = self._all_to_all(bits, self.send_counts, self.recv_counts).cpu().numpy()
        return np.unpackbits(told, axis=1, count=len(wanted)).T.astype(bool)

    def fetch(self, x: Tensor, name: str) -> Tensor:
        """The rows [c, width] of this level, as `HaloExchanger.fetch`."""
        if not self.times_arrivals:
            return super().fetch(x, name)
        with self.recorder.span(f"{name}/pack/forward"):
            rows = gather_rows(x, self.send_rows)
        with self.recorder.span(f"{name}/exchange/forward", "communicate"):
            out = pool.empty(x.device, self.num_halo, x.shape[1])
            self.arrived_s[name] = self._timed_all_to_all(out, rows)
        self.recorder.sent_bytes += rows.nbytes
        return out

    def _timed_all_to_all(self, out: Tensor, rows: Tensor) -> np.ndarray:
        """`gnnplan.profiles.exchange.all_to_all`, that waits last for whom it had to wait longest before.

        gloo tells only who waits for it that rows have come: whoever comes in late must be waited for last, or the
        others seem as late.
        """
        rank, size = dist.get_rank(), dist.get_world_size()
        order = self._order or [(rank - step) % size for step in range(1, size)]
        received, sent = out.split(self.recv_counts), rows.split(self.send_counts)
        begin_s = time.monotonic()
        works = {peer: dist.irecv(received[peer], peer) for peer in order if self.recv_counts[peer]}
        peers = [(rank + step) % size for step in range(1, size)]
        sends = [dist.isend(sent[peer], peer) for peer in peers if self.send_counts[peer]]
        arrived_s, blocked_s, before_s = np.zeros(size), np.zeros(size), 0.0
        for peer, work in works.items():
            assert work is not None
            work.wait()
            arrived_s[peer] = time.monotonic() - begin_s
            blocked_s[peer] = arrived_s[peer] - before_s
            before_s = arrived_s[peer]
        for send in sends:
            assert send is not None
            send.wait()
        self._order = sorted(order, key=lambda peer: blocked_s[peer])
        return arrived_s


def _is_gloo() -> bool:
    return dist.is_initialized() and dist.get_backend() == "gloo"


def _count(chosen: np.ndarray, counts: Sequence[int]) -> list[int]:
    """How many are chosen of each worker's consecutive rows."""
    worker = np.repeat(np.arange(len(counts)), counts)
    return np.bincount(worker[chosen], minlength=len(counts)).tolist()
