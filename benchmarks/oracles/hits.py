"""Hit rates of one host's two tiers: overlap priority against FIFO and LRU.

An entry has room for a vertex's rows in all layers (algorithm 1), and every layer reads the same halos in the same
order: what one layer finds is what each of them finds, so one is played an epoch.

An exchange is collective: every worker looks its whole halo up before any row of it arrives. So lookups `at_once` see
what the exchange before left, and rows that arrive are put away, others displaced, afterwards. `one_by_one` each row
is put away before the next is looked up, as textbooks have it: as every epoch reads the same rows in the same order,
what is displaced is then just what is needed next, but workers also find what another one received a moment before.

Overlap priority holds no row twice for one worker. So that placement can be told from priority, FIFO and LRU are
played in two ways: `inclusive`, a row that was not found on the device goes there and to the region; `exclusive`, one
that is in the region stays there, another goes to the device, and what that displaces goes to the region.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import zip_longest
from typing import Literal

import numpy as np

from benchmarks.oracles.tiers import arrange

Policy = Literal["overlap", "fifo", "lru"]
Lookups = Literal["at_once", "one_by_one"]
Placement = Literal["inclusive", "exclusive"]


@dataclass(frozen=True)
class Hits:
    """Lookups of one epoch, summed over local workers, and how many found their row in each tier."""

    lookups: int
    device: int
    region: int

    @property
    def rate(self) -> float:
        """Share of the lookups that found a row (1 where there was nothing to look up)."""
        return (self.device + self.region) / self.lookups if self.lookups else 1.0


class Displacing:
    """At most `capacity` vertices; a new one displaces the one longest in (FIFO) or longest unused (LRU)."""

    def __init__(self, capacity: int, *, by_use: bool) -> None:
        self._capacity, self._by_use = capacity, by_use
        self._held: OrderedDict[int, None] = OrderedDict()

    def __contains__(self, vertex: int) -> bool:
        return vertex in self._held

    def held(self) -> frozenset[int]:
        """The vertices held now."""
        return frozenset(self._held)

    def touch(self, vertex: int) -> int | None:
        """Uses a vertex, taking it in where it is not held; returns what that displaced (itself without any room)."""
        if vertex in self._held:
            if self._by_use:
                self._held.move_to_end(vertex)
            return None
        self._held[vertex] = None
        return self._held.popitem(last=False)[0] if len(self._held) > self._capacity else None


def play(
    halos: Sequence[np.ndarray],
    *,
    device_rows: int,
    region_rows: int,
    policy: Policy,
    num_epochs: int,
    lookups: Lookups = "at_once",
    placement: Placement = "inclusive",
) -> list[Hits]:
    """Plays epochs in which rows stay valid, from empty caches on; FIFO and LRU are steady after a few.

    With refresh interval r the first of r epochs finds nothing valid, and (r - 1) / r of these hits are left.

    Args:
        halos: int64 [h], distinct halo vertices of each local worker in the order it reads them.
        device_rows, region_rows: capacities in vertices, of each device and of the shared region.
        lookups, placement: make no difference to `overlap`, which displaces nothing.
    """
    if policy == "overlap":
        return _play_fixed(halos, device_rows, region_rows, num_epochs)
    devices = [Displacing(device_rows, by_use=policy == "lru") for _ in halos]
    region = Displacing(region_rows, by_use=policy == "lru")
    orders = [halo.tolist() for halo in halos]
    return [_play_displacing(orders, devices, region, lookups, placement) for _ in range(num_epochs)]


def _play_fixed(halos: Sequence[np.ndarray], device_rows: int, region_rows: int, num_epochs: int) -> list[Hits]:
    """Every epoch reads the same rows: the best ones are kept from the first on, and none is ever displaced."""
    tiers = arrange(halos, device_rows, region_rows)
    lookups = sum(map(len, halos))
    region = sum(int(np.isin(halo, tiers.region).sum()) for halo in halos)
    steady = Hits(lookups, sum(map(len, tiers.device)), region)
    return [Hits(lookups, 0, 0), *[steady] * num_epochs][:num_epochs]


def _play_displacing(
    orders: Sequence[list[int]],
    devices: Sequence[Displacing],
    region: Displacing,
    lookups: Lookups,
    placement: Placement,
) -> Hits:
    """One epoch. A lookup goes to the device, then to the region; workers read side by side, one row each in turn."""
    tiers = [*devices, region]
    seen = [each.held() for each in tiers] if lookups == "at_once" else tiers
    on_device = in_region = 0
    for turn in zip_longest(*orders):
        for worker, vertex in enumerate(turn):
            if vertex is None:  # this worker has read its halo
                continue
            is_on_device = vertex in seen[worker]
            on_device += is_on_device
            in_region += not is_on_device and vertex in seen[-1]
            if placement == "exclusive":
                _use_exclusive(vertex, devices[worker], region)
            else:
                if not is_on_device:
                    region.touch(vertex)
                devices[worker].touch(vertex)
    return Hits(sum(map(len, orders)), on_device, in_region)


def _use_exclusive(vertex: int, device: Displacing, region: Displacing) -> None:
    if vertex in region and vertex not in device:
        region.touch(vertex)
    elif (displaced := device.touch(vertex)) is not None:
        region.touch(displaced)
