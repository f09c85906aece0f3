"""Which halo rows are worth making: all of them, those of one level, or of these the ones that are cheap to make."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import scipy.sparse as sp

from gnnplan.planner.contracts.candidate import Candidate
from gnnplan.planner.contracts.received import received_rows

_QUANTILES = (1.0, 0.5, 0.25)  # of the entries that making a row sums over


def proposals(candidate: Candidate, made: np.ndarray) -> Iterator[np.ndarray]:
    """Rows to make, int32 [3, n] by (level, worker, vertex).

    A row costs what it sums over, and spares its bytes: so of one level's rows those of fewest entries pay first
    (NeutronCloud, section 4.2, without what rows share).

    Args:
        made: rows that are made already, which the proposals have too.
    """
    matrix, num_levels = candidate.setting.matrix, candidate.setting.num_levels
    rows = np.concatenate([received_rows(candidate, constant=constant)[0] for constant in (False, True)], axis=1)
    rows = rows[:, rows[0] > 0]
    if not rows.size:
        return
    yield everything(matrix, [ids for ids in _own(candidate)], num_levels)
    entries = np.diff(matrix.indptr)
    for level in np.unique(rows[0])[::-1]:
        of_level = rows[:, rows[0] == level]
        cost = entries[of_level[2]]
        for quantile in _QUANTILES:
            cheap = of_level[:, cost <= np.quantile(cost, quantile)]
            yield _union(made, cheap)


def everything(matrix: sp.csr_matrix, own: list[np.ndarray], num_levels: int) -> np.ndarray:
    """All rows above the features that workers need of others: with them, only features and gradients travel.

    Args:
        own: every worker's vertices.
    """
    found = [np.empty((3, 0), np.int32)]
    for worker, ids in enumerate(own):
        held = ids
        for level in range(num_levels - 1, 0, -1):
            needed = np.setdiff1d(matrix[held].indices, ids)
            found.append(np.stack([np.full_like(needed, level), np.full_like(needed, worker), needed]).astype(np.int32))
            held = np.concatenate([ids, needed])
    return np.concatenate(found, axis=1)


def _own(candidate: Candidate) -> Iterator[np.ndarray]:
    """Every worker's own vertices, which come first among the rows of a level."""
    cycle = candidate.cycle
    name, space = next((name, space) for name, space in cycle.spaces.items() if space.num_own)
    for ids, count in zip(cycle.arrays.ids[name], space.num_own, strict=True):  # type: ignore[union-attr]
        yield ids[:count]


def _union(made: np.ndarray, more: np.ndarray) -> np.ndarray:
    return np.unique(np.concatenate([made, more], axis=1), axis=1).astype(np.int32)
