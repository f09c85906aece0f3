"""Whether a cache decision fits the rest of its plan: for plan files that were edited, or mixed up."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from gnnplan.planner.cluster import Placement
from gnnplan.planner.joint_cache.decision import CacheDecision
from gnnplan.planner.joint_cache.layout import RegionLayout
from gnnplan.planner.steps import Program

Counts = Sequence[Sequence[int]]


def cache_fault(cache: CacheDecision, send_counts: Counts, placement: Placement, program: Program) -> str | None:
    """What is wrong with a decision, in words that begin with the key; None where it fits.

    Args:
        send_counts: rows worker p sends to q in one exchange.
    """
    size = len(placement.workers)
    if not cache.num_rows and not cache.fresh_counts and cache.region is None:
        return None
    if len(cache.num_rows) != size or not _is_square(cache.fresh_counts, size):
        return f"decision.cache: num_rows and fresh_counts must each have {size} workers"
    shared = np.array(send_counts) - np.array(cache.fresh_counts)
    found = shared.sum(0) - np.array(cache.num_rows)  # rows that each worker keeps, but not on its device
    if (shared < 0).any() or (found < 0).any() or (cache.region is None and found.any()):
        return "decision.cache: send_counts less fresh_counts must be the num_rows each worker keeps"
    return _region_fault(cache, np.array(send_counts), placement, program)


def _region_fault(cache: CacheDecision, send_counts: np.ndarray, placement: Placement, program: Program) -> str | None:
    region, size, where = cache.region, len(placement.workers), "decision.cache.region"
    if region is None:
        return None
    of_workers = (region.device_rows, region.written_rows)
    if any(len(rows) != size for rows in of_workers) or not _is_square(region.sent_counts, size):
        return f"{where}: device_rows, written_rows and sent_counts must each have {size} workers"
    hosts = placement.region_bytes
    if len(region.num_rows) != len(hosts):
        return f"{where}: num_rows must have {len(hosts)} hosts"
    if (np.array(region.sent_counts) > send_counts).any():
        return f"{where}: sent_counts must be of the rows in send_counts"
    for host, room in enumerate(hosts):
        written = sum(rows for rows, its in zip(region.written_rows, placement.host_of) if its == host)
        if written != region.num_rows[host]:
            return f"{where}: host {host} has {region.num_rows[host]} rows, its workers write {written}"
        needed = RegionLayout.of(program, cache, placement.host_of, host).num_bytes if region.num_rows[host] else 0
        if needed > room:
            name = next(worker.host for worker in placement.workers if worker.host_index == host)
            return f"{where}: host {name} needs a region of {needed:,} bytes and has one of {room:,} (region_bytes)"
    return None


def _is_square(counts: Counts, size: int) -> bool:
    return [len(row) for row in counts] == [size] * size
