"""How many vertices fit each tier of the joint cache: algorithm 1 of CaPGNN, in bytes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from gnnplan.planner.halo import Halo

RESERVE_BYTES = 64 * 2**20
"""Left free on every device that keeps rows, for what the memory model does not see."""
REGION_RESERVE_BYTES = 64 * 2**10
"""Left free in every host's region, for its stamps and what aligns its rows."""


@dataclass(frozen=True)
class Capacities:
    """Vertices that fit: in each worker's device memory [W], in the region each host's workers share [hosts]."""

    device: tuple[int, ...]
    host: tuple[int, ...]


def capacity(free_bytes: int, reserve_bytes: int, vertex_bytes: int, num_vertices: int) -> int:
    """Vertices that fit `free_bytes` with `reserve_bytes` left over, at most `num_vertices` (algorithm 1's minimum).

    Args:
        vertex_bytes: of a vertex's rows in all layers that are kept, > 0.
    """
    return max(0, min((free_bytes - reserve_bytes) // vertex_bytes, num_vertices))


def joint_capacities(
    halo: Halo,
    host_of: Sequence[int],
    *,
    device_free_bytes: Sequence[int],
    host_free_bytes: Sequence[int],
    device_reserve_bytes: int,
    host_reserve_bytes: int,
    vertex_bytes: int,
) -> Capacities:
    """Algorithm 1, with all halo vertices to select from (its k = -1) and a region for each host.

    Args:
        host_of: host of each worker [W], 0, 1 ... without gaps.
        device_free_bytes: of each worker [W], its plan's other needs taken off.
        host_free_bytes: of each host.
        vertex_bytes: of a vertex's rows in all layers that are kept.
    """
    device = tuple(
        capacity(free, device_reserve_bytes, vertex_bytes, len(block.halo))
        for free, block in zip(device_free_bytes, halo.blocks, strict=True)
    )
    host = []
    for index, free in enumerate(host_free_bytes):
        halos = [block.halo for block, its_host in zip(halo.blocks, host_of, strict=True) if its_host == index]
        host.append(capacity(free, host_reserve_bytes, vertex_bytes, len(np.unique(np.concatenate(halos)))))
    return Capacities(device, tuple(host))
