"""Which rows are worth sharing: those that many workers of a host read, up to what its region holds."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product

import numpy as np

from gnnplan.planner.cluster import Placement
from gnnplan.planner.contracts.candidate import Candidate
from gnnplan.planner.contracts.received import received_rows

REGION_RESERVE_BYTES = 64 * 2**10
"""Left free in every host's region, for its stamps and what aligns its rows."""
_HALVINGS = 2  # of what regions hold, for owners keep the gradients that are returned for rows that are refreshed


def shared_rows(candidate: Candidate) -> Iterator[np.ndarray]:
    """Rows that workers could read from their hosts' regions, int32 [3, n] by (level, worker, vertex).

    They are of those that are sent in every epoch, for which workers have no room of their own: as many as regions
    hold, then fewer; first of all rows, then of those alone that are the same in every epoch.
    """
    place, seen = candidate.setting.placement, set[bytes]()
    for constant, halving in product((None, True), range(1 + _HALVINGS)):
        rows, num_bytes = received_rows(candidate, constant=constant, in_epochs=True)
        found = _fitting(rows, num_bytes, place, 2**halving)
        if found.size and found.tobytes() not in seen:
            seen.add(found.tobytes())
            yield found


def _fitting(rows: np.ndarray, num_bytes: np.ndarray, place: Placement, part: int) -> np.ndarray:
    """What every host's region holds of rows, with a `part` of it filled."""
    host_of, is_chosen = np.array(place.host_of), np.zeros(rows.shape[1], bool)
    for host in place.sharing_hosts:
        room = place.workers[int(np.flatnonzero(host_of == host)[0])].region_bytes - REGION_RESERVE_BYTES
        here = np.flatnonzero(host_of[rows[1]] == host)
        is_chosen[here] = _by_readers(rows[:, here], num_bytes[here], room / part)
    return rows[:, is_chosen]


def _by_readers(rows: np.ndarray, num_bytes: np.ndarray, room: float) -> np.ndarray:
    """bool: the rows of one host that its region holds, those first that most of its workers read."""
    if not rows.size:
        return np.zeros(0, bool)
    of_graph = rows[0].astype(np.int64) * (int(rows[2].max()) + 1) + rows[2]  # a number for each level and vertex
    _, first, at, readers = np.unique(of_graph, return_index=True, return_inverse=True, return_counts=True)
    order = np.lexsort((rows[2][first], -readers))
    fits = np.zeros(len(order), bool)
    fits[order] = np.cumsum(num_bytes[first][order]) <= room
    return fits[at]
