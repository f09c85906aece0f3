"""Where halo rows are kept, worker by worker: on its device, or in the region of memory that its host's workers share.

A row of the region is stored once for all local workers that read it, and written by one of them: its owner where
that is on the host, else one reader, the only one on the host that it is sent to. The others read it there. All of
it follows from the halo and the decision, so planner, senders and receivers cannot disagree.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from gnnplan.planner.halo import Halo
from gnnplan.planner.joint_cache.decision import CacheDecision, RegionDecision
from gnnplan.planner.joint_cache.overlap import fresh_counts, overlap_ratio
from gnnplan.planner.joint_cache.tiers import shared_vertices


@dataclass(frozen=True)
class HostRows:
    """What one host's region holds: m rows, those of one writer together, its own before those it was sent.

    Args:
        vertices: int64 [m], global ids.
        writer: int32 [m], rank of the worker that writes the row.
        is_owned: bool [m], by its writer.
    """

    vertices: np.ndarray
    writer: np.ndarray
    is_owned: np.ndarray

    def find(self, vertices: np.ndarray) -> np.ndarray:
        """int64: the row of each vertex, -1 where the region does not have it."""
        if not len(self.vertices):
            return np.full(len(vertices), -1)
        order = np.argsort(self.vertices)
        place = order[np.searchsorted(self.vertices, vertices, sorter=order).clip(max=len(order) - 1)]
        return np.where(self.vertices[place] == vertices, place, -1)

    def sent_to(self, rank: int, rows: np.ndarray) -> np.ndarray:
        """bool: which of these rows (-1: none of the region) a worker is sent, since no other one writes them."""
        sent = rows < 0
        sent[~sent] = self.writer[rows[~sent]] == rank
        return sent

    def written_by(self, rank: int) -> np.ndarray:
        """int64: the rows that a worker writes, without a gap."""
        return np.flatnonzero(self.writer == rank)


NO_ROWS = HostRows(np.empty(0, np.int64), np.empty(0, np.int32), np.empty(0, bool))


@dataclass(frozen=True)
class KeptHalo:
    """Where each worker's h halo rows are kept between epochs.

    Args:
        device: bool [h] of each worker, in its own memory.
        place: int64 [h] of each worker, row in its host's region, -1 where it is not there.
        received: bool [h] of each worker, sent to it where all rows travel: what no other worker writes for it.
        hosts: the region of each host; none where nothing is shared.
    """

    device: tuple[np.ndarray, ...]
    place: tuple[np.ndarray, ...]
    received: tuple[np.ndarray, ...]
    hosts: tuple[HostRows, ...]

    @property
    def kept(self) -> tuple[np.ndarray, ...]:
        """bool [h] of each worker: kept in either tier."""
        return tuple(device | (place >= 0) for device, place in zip(self.device, self.place, strict=True))


def keep_rows(
    halo: Halo, device_rows: Sequence[int], host_of: Sequence[int] = (), region_rows: Sequence[int] = ()
) -> KeptHalo:
    """Fills both tiers by overlap ratio.

    Args:
        device_rows: vertices that fit each worker's device [W].
        host_of: index of each worker's host [W]; may be left out where no host has a region.
        region_rows: vertices that fit each host's region.
    """
    ratio, owner = overlap_ratio(halo), _owners(halo)
    members = [[rank for rank, its in enumerate(host_of) if its == host] for host in range(len(region_rows))]
    hosts = tuple(
        _host_rows(halo, ranks, device_rows, rows, owner) for ranks, rows in zip(members, region_rows, strict=True)
    )
    device, place, received = [], [], []
    for rank, (block, room) in enumerate(zip(halo.blocks, device_rows, strict=True)):
        rows = hosts[host_of[rank]].find(block.halo) if hosts else np.full(len(block.halo), -1)
        rest = np.flatnonzero(rows < 0)
        mask = np.zeros(len(block.halo), bool)
        mask[rest[_by_priority(ratio[block.halo[rest]], block.halo_owner[rest])[:room]]] = True
        device.append(mask)
        place.append(rows)
        received.append(hosts[host_of[rank]].sent_to(rank, rows) if hosts else rows < 0)
    return KeptHalo(tuple(device), tuple(place), tuple(received), hosts)


def kept_halo(halo: Halo, cache: CacheDecision, host_of: Sequence[int] = ()) -> KeptHalo:
    """What a decision keeps of a halo, and where."""
    if cache.region is None:
        return keep_rows(halo, cache.num_rows or (0,) * halo.num_workers)
    return keep_rows(halo, cache.region.device_rows, host_of, cache.region.num_rows)


def decide_rows(
    halo: Halo,
    device_rows: Sequence[int],
    host_of: Sequence[int] = (),
    region_rows: Sequence[int] = (),
    *,
    refresh_interval: int = 1,
    keeps_features: bool = True,
) -> CacheDecision:
    """The decision that fills both tiers up to these capacities; `kept_halo` of it is `keep_rows` of them."""
    found = keep_rows(halo, device_rows, host_of, region_rows)
    region = None
    if any(len(host.vertices) for host in found.hosts):
        written = [host.written_by(rank) for rank, host in ((r, found.hosts[h]) for r, h in enumerate(host_of))]
        skipped = [~received for received in found.received]
        region = RegionDecision(
            num_rows=tuple(len(host.vertices) for host in found.hosts),
            device_rows=tuple(map(int, device_rows)),
            written_rows=tuple(map(len, written)),
            sent_counts=_rows_of(fresh_counts(halo, skipped)),
        )
    return CacheDecision(
        refresh_interval=refresh_interval,
        keeps_features=keeps_features,
        num_rows=tuple(int(mask.sum()) for mask in found.device),
        fresh_counts=_rows_of(fresh_counts(halo, found.kept)),
        region=region,
    )


def is_kept_as_decided(halo: Halo, cache: CacheDecision, host_of: Sequence[int] = ()) -> bool:
    """Whether the rows that a halo's overlap ratios put first are as many as the decision says, on every way."""
    if not cache.keeps_any:
        return True
    region = cache.region
    again = decide_rows(
        halo,
        region.device_rows if region else cache.num_rows,
        host_of,
        region.num_rows if region else (),
        refresh_interval=cache.refresh_interval,
        keeps_features=cache.keeps_features,
    )
    return again == cache.model_copy(update={"break_even_share": None})


def _rows_of(counts: np.ndarray) -> tuple[tuple[int, ...], ...]:
    return tuple(map(tuple, counts.tolist()))


def _by_priority(ratio: np.ndarray, owner: np.ndarray) -> np.ndarray:
    """int64: rows by falling overlap ratio; of equals every owner's in proportion, however many are taken.

    An exchange ends with its slowest port: if one owner's rows were all kept, all that travels would be another's.
    """
    keys = ratio.astype(np.int64) * (int(owner.max(initial=0)) + 1) + owner
    _, group, size = np.unique(keys, return_inverse=True, return_counts=True)
    order = np.argsort(group, kind="stable")
    turn = np.empty(len(group), np.int64)
    turn[order] = np.arange(len(group)) - np.repeat(np.cumsum(size) - size, size)
    return np.lexsort(((turn + 0.5) / size[group], -ratio))


def _owners(halo: Halo) -> np.ndarray:
    """int32 [N]: owner of every vertex."""
    owner = np.empty(sum(len(block.vertices) for block in halo.blocks), np.int32)
    for rank, block in enumerate(halo.blocks):
        owner[block.vertices] = rank
    return owner


def _host_rows(
    halo: Halo, ranks: Sequence[int], device_rows: Sequence[int], region_rows: int, owner: np.ndarray
) -> HostRows:
    """One host's rows with their writers; rows that come from other hosts are spread evenly over their readers."""
    halos = [halo.blocks[rank].halo for rank in ranks]
    vertices = shared_vertices(halos, [device_rows[rank] for rank in ranks], region_rows)
    reads = np.stack([np.isin(vertices, each) for each in halos], axis=1)
    turn = np.arange(len(vertices)) % np.maximum(reads.sum(1), 1)
    reader = (reads & (reads.cumsum(1) == turn[:, None] + 1)).argmax(1)
    is_owned = np.isin(owner[vertices], ranks)
    writer = np.where(is_owned, owner[vertices], np.asarray(ranks, np.int32)[reader])
    order = np.lexsort((vertices, ~is_owned, writer))
    return HostRows(vertices[order], writer[order].astype(np.int32), is_owned[order])
