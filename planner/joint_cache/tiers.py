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


def arrange(halos: Sequence[np.ndarray], device_rows: int, region_rows: int) -> Tiers:
    """Fills both tiers by overlap ratio.

    Args:
        halos: int64 [h], distinct halo vertices of each local worker.
        device_rows, region_rows: capacities in vertices.
    """
    region = _region(halos, device_rows, region_rows)
    ratio = _ratios(halos)
    device = []
    for halo in halos:
        rest = np.setdiff1d(halo, region)
        device.append(rest[np.argsort(-ratio[rest], kind="stable")[:device_rows]])
    return Tiers(tuple(device), region)


def _ratios(halos: Sequence[np.ndarray]) -> np.ndarray:
    return np.bincount(np.concatenate(halos))


def _region(halos: Sequence[np.ndarray], device_rows: int, region_rows: int) -> np.ndarray:
    """Highest overlap ratio first, counted over workers that still lack room; of equals where most is lacking.

    Vertices read by the same workers are alike, so whole groups of them are taken at a time.
    """
    vertices = np.unique(np.concatenate(halos))
    reads = np.stack([np.isin(vertices, halo) for halo in halos], axis=1)
    groups, group_of = np.unique(reads, axis=0, return_inverse=True)
    left, taken = np.bincount(group_of.ravel(), minlength=len(groups)), np.zeros(len(groups), np.int64)
    lacking = np.array([len(halo) - device_rows for halo in halos])
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
