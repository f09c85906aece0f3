"""Hit rates of one host's two tiers: overlap priority against FIFO and LRU.

An entry has room for a vertex's rows in all layers (algorithm 1), and every layer reads the same halos in the same
order: what one layer finds is what each of them finds, so one is played an epoch.

An exchange is collective: every worker looks its whole halo up before any row of it arrives. So lookups `at_once` see
what the exchange before left, and rows that arrive are put away, others displaced, afterwards. This is the best that
can be made of FIFO and LRU. `one_by_one` each row is put away before the next is looked up, as textbooks have it; as
every epoch reads the same rows in the same order, what is displaced is then just what is needed next.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import zip_longest
from typing import Literal

import numpy as np

from planner.joint_cache.tiers import arrange

Policy = Literal["overlap", "fifo", "lru"]
Lookups = Literal["at_once", "one_by_one"]


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

    def touch(self, vertex: int) -> None:
        """Uses a vertex, taking it in where it is not held."""
        if vertex in self._held:
            if self._by_use:
                self._held.move_to_end(vertex)
        elif self._capacity:
            if len(self._held) == self._capacity:
                self._held.popitem(last=False)
            self._held[vertex] = None


def play(
    halos: Sequence[np.ndarray],
    *,
    device_rows: int,
    region_rows: int,
    policy: Policy,
    num_epochs: int,
    lookups: Lookups = "at_once",
) -> list[Hits]:
    """Plays epochs in which rows stay valid, from empty caches on; FIFO and LRU are steady after a few.

    With refresh interval r the first of r epochs finds nothing valid, and (r - 1) / r of these hits are left.

    Args:
        halos: int64 [h], distinct halo vertices of each local worker in the order it reads them.
        device_rows, region_rows: capacities in vertices, of each device and of the shared region.
        lookups: makes no difference to `overlap`, which displaces nothing.
    """
    if policy == "overlap":
        return _play_fixed(halos, device_rows, region_rows, num_epochs)
    return _play_displacing(halos, device_rows, region_rows, num_epochs, by_use=policy == "lru", lookups=lookups)


def _play_fixed(halos: Sequence[np.ndarray], device_rows: int, region_rows: int, num_epochs: int) -> list[Hits]:
    """Every epoch reads the same rows: the best ones are kept from the first on, and none is ever displaced."""
    tiers = arrange(halos, device_rows, region_rows)
    lookups = sum(map(len, halos))
    region = sum(int(np.isin(halo, tiers.region).sum()) for halo in halos)
    steady = Hits(lookups, sum(map(len, tiers.device)), region)
    return [Hits(lookups, 0, 0), *[steady] * num_epochs][:num_epochs]


def _play_displacing(
    halos: Sequence[np.ndarray], device_rows: int, region_rows: int, num_epochs: int, *, by_use: bool, lookups: Lookups
) -> list[Hits]:
    """A lookup goes to the device, then to the region; workers read side by side, one row each in turn."""
    orders = [halo.tolist() for halo in halos]
    devices = [Displacing(device_rows, by_use=by_use) for _ in orders]
    region = Displacing(region_rows, by_use=by_use)
    epochs = []
    for _ in range(num_epochs):
        tiers = [*devices, region]
        seen = [each.held() for each in tiers] if lookups == "at_once" else tiers
        on_device = in_region = 0
        for turn in zip_longest(*orders):
            for worker, vertex in enumerate(turn):
                if vertex is None:  # this worker has read its halo
                    continue
                if vertex in seen[worker]:
                    on_device += 1
                else:
                    in_region += vertex in seen[-1]
                    region.touch(vertex)
                devices[worker].touch(vertex)
        epochs.append(Hits(sum(map(len, orders)), on_device, in_region))
    return epochs
