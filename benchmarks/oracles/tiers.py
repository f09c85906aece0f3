"""What each tier of one host's joint cache holds where overlap ratios set the priority.

A row in the shared region serves every local worker that reads it, a row in device memory one. So the region takes
the rows that most local workers read and have no room for themselves, and the devices take what the region has not.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True)
class Tiers:
    """Vertices held: `device[w]` by each local worker, `region` by all together; no vertex twice for one worker."""

    device: tuple[np.ndarray, ...]
    region: np.ndarray


def arrange(halos: Sequence[np.ndarray], device_rows: int | Sequence[int], region_rows: int) -> Tiers:
    """Fills both tiers by overlap ratio.

    Args:
        halos: int64 [h], distinct halo vertices of each local worker.
        device_rows, region_rows: capacities in vertices; the devices' one for all, or of each.
    """
    rooms = np.broadcast_to(device_rows, len(halos)).tolist()
    region = shared_vertices(halos, rooms, region_rows)
    ratio = _ratios(halos)
    device = []
    for halo, room in zip(halos, rooms, strict=True):
        rest = np.setdiff1d(halo, region)
        device.append(rest[np.argsort(-ratio[rest], kind="stable")[:room]])
    return Tiers(tuple(device), region)


def _ratios(halos: Sequence[np.ndarray]) -> np.ndarray:
    return np.bincount(np.concatenate(halos))


def shared_vertices(halos: Sequence[np.ndarray], device_rows: Sequence[int], region_rows: int) -> np.ndarray:
    """What the region holds, ascending: nothing that no local worker lacks room for.

    Highest overlap ratio first, counted over workers that still lack room; of equals where most is lacking.
    Vertices read by the same workers are alike, so whole groups of them are taken at a time. A region of as many
    rows as were chosen holds the same ones.
    """
    vertices = np.unique(np.concatenate(halos))
    if region_rows <= 0 or not len(vertices):
        return vertices[:0]
    reads = np.stack([np.isin(vertices, halo) for halo in halos], axis=1)
    groups, group_of = np.unique(reads, axis=0, return_inverse=True)
    left, taken = np.bincount(group_of.ravel(), minlength=len(groups)), np.zeros(len(groups), np.int64)
    lacking = np.array([len(halo) - room for halo, room in zip(halos, device_rows, strict=True)])
    while region_rows > 0:
        gain = np.where(left > 0, (groups & (lacking > 0)).sum(1), 0)
        if not gain.any():
            break
        best = np.lexsort(((groups * lacking.clip(0)).sum(1), gain))[-1]
        num = int(min(region_rows, left[best], lacking[groups[best] & (lacking > 0)].min()))
        left[best], taken[best], region_rows = left[best] - num, taken[best] + num, region_rows - num
        lacking = lacking - num * groups[best]
    chosen = np.zeros(len(vertices), bool)
    for group, count in enumerate(taken):
        chosen[np.flatnonzero(group_of.ravel() == group)[:count]] = True
    return vertices[chosen]
