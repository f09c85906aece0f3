"""Which halo rows are worth making: all of them, or those that cost less to make than to receive.

The source is NeutronCloud (PVLDB 19(1), 2025), section 4: equations 5 and 7, and its dependency selection. There a
replica needs everything that it is made of; here what is missing of it is received, and charged.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import scipy.sparse as sp

from gnnplan.planner.contracts.candidate import Candidate
from gnnplan.planner.program.cuts import has_entries
from gnnplan.planner.techniques.replicas.marginal import Marginal

_LEAST_GAIN = 0.02  # of an epoch, that replicas could save at the most; below it they are not looked into
_MOST_PROPOSALS = 3
Chooses = Callable[[int, int, np.ndarray], np.ndarray]
"""Of a level, a worker and the vertices [h] that it needs and does not own: bool [h], whose rows it makes."""


@dataclass(frozen=True)
class Selection:
    """Rows to make, and what that takes.

    Args:
        rows: int32 [3, n] by (level, worker, vertex).
        seconds: more in an epoch of the worker that it costs most, for rows made and rows still received.
    """

    rows: np.ndarray
    seconds: float


def proposals(candidate: Candidate) -> Iterator[np.ndarray]:
    """Rows to make, int32 [3, n] by (level, worker, vertex), the most promising first; none where they save little.

    What pays row by row, and everything of the first levels, as many as there are: what rows of a level are made of is
    then there.
    """
    if could_save_s(candidate) < _LEAST_GAIN * candidate.epoch_s:
        return
    costs = Marginal.of(candidate)
    levels = sorted(moving_levels(candidate))
    first = (_selected(candidate, costs, _all_of(levels[: n + 1])) for n in range(len(levels)))
    found = sorted((_paying(candidate, costs), *first), key=lambda each: each.seconds)
    distinct = {each.rows.tobytes(): each.rows for each in found if each.rows.size}
    yield from list(distinct.values())[:_MOST_PROPOSALS]


def could_save_s(candidate: Candidate) -> float:
    """Seconds of an epoch in which the busiest worker waits, or launches kernels: no replica can save more.

    Rows that do not travel need not be packed, nor added up apart from a worker's own: that is fewer kernels.
    """
    waiting_s = candidate.epoch_s - float(candidate.busy_s().max())
    return waiting_s + max(_launching_s(candidate, worker) for worker in candidate.cycle.workers)


def _launching_s(candidate: Candidate, worker: int) -> float:
    """What an epoch's tasks take a worker however small they are."""
    each_s = candidate.setting.placement.profile_of(worker).host_overhead_s
    counts = (
        candidate.shares[name] * sum(task.worker == worker for task in schedule.tasks)
        for name, schedule in candidate.schedules.items()
    )
    return each_s * sum(counts)


def everything(candidate: Candidate) -> np.ndarray:
    """All that must be made so that no row travels that changes from epoch to epoch, but for rows of pairs."""
    return _selected(candidate, Marginal.of(candidate), _all_of(moving_levels(candidate))).rows


def paying_rows(candidate: Candidate) -> np.ndarray:
    """Rows that take a worker less time to make than to receive."""
    return _paying(candidate, Marginal.of(candidate)).rows


def _all_of(levels: Collection[int]) -> Chooses:
    return lambda level, _worker, halo: np.full(len(halo), level in levels)


def _paying(candidate: Candidate, costs: Marginal) -> Selection:
    matrix, moving = candidate.setting.matrix, moving_levels(candidate)
    is_there = [_needed(matrix, owned) for owned in _owned(candidate)]

    def pays(level: int, worker: int, halo: np.ndarray) -> np.ndarray:
        if level not in moving:
            return np.zeros(len(halo), bool)
        made_s = _made_s(costs, matrix, halo, level, worker)
        if level - 1 in moving:
            made_s = made_s + costs.received_s[level - 1, worker] * _num_lacking(matrix[halo], is_there[worker])
        return made_s < costs.received_s[level, worker]

    return _selected(candidate, costs, pays)


def moving_levels(candidate: Candidate) -> set[int]:
    """Levels whose rows travel in epochs."""
    programs = (candidate.cycle.programs[name] for name in candidate.shares)
    return {op.attributes["level"] for each in programs for op in each if op.kind == "exchange" and _brings(op)}


def _brings(op) -> bool:
    return "level" in op.attributes and not op.attributes.get("back")


def _selected(candidate: Candidate, costs: Marginal, chooses: Chooses) -> Selection:
    """From the last level to the first: what is made there needs more rows of the level below."""
    matrix, found, seconds = candidate.setting.matrix, [np.empty((3, 0), np.int64)], [0.0]
    of_pairs = candidate.setting.num_levels - 1 if candidate.setting.graph.pairs else None
    for worker, owned in enumerate(_owned(candidate)):
        of_own, spent_s = _needed(matrix, owned), 0.0
        is_needed = of_own
        for level in reversed(range(candidate.setting.num_levels)):
            if level == of_pairs:  # which the matrix tells nothing of
                continue
            halo = np.flatnonzero(is_needed)
            halo = halo[np.isin(halo, owned, invert=True, assume_unique=True, kind="table")]
            chosen = halo[chooses(level, worker, halo)]
            spent_s += float(_made_s(costs, matrix, chosen, level, worker).sum())
            spent_s += float(costs.received_s[level, worker]) * (len(halo) - len(chosen))
            found.append(np.stack([np.full_like(chosen, level), np.full_like(chosen, worker), chosen]))
            is_needed = of_own | _needed(matrix, chosen)
        seconds.append(spent_s)
    made = np.concatenate(found, axis=1).astype(np.int32)
    return Selection(made[:, np.lexsort(made[::-1])], max(seconds))


def _made_s(costs: Marginal, matrix: sp.csr_matrix, vertices: np.ndarray, level: int, worker: int) -> np.ndarray:
    """Float64 [h]: seconds in which a worker makes rows of a level, once what they are made of is there."""
    num_entries = matrix.indptr[vertices + 1] - matrix.indptr[vertices]
    return costs.row_s[level, worker] + costs.edge_s[level, worker] * num_entries


def _num_lacking(inputs: sp.csr_matrix, is_there: np.ndarray) -> np.ndarray:
    """Float64 [h]: rows of the level below that would have to come for each, shared by all that need the same one.

    Args:
        is_there: bool [N], vertices whose rows of the level below the worker has or receives anyway.
    """
    columns = inputs.indices
    lacks = ~is_there[columns]
    users = np.bincount(columns[lacks], minlength=len(is_there))
    shares = np.zeros(len(columns) + 1)
    shares[:-1][lacks] = 1.0 / users[columns[lacks]]
    return np.add.reduceat(shares, inputs.indptr[:-1]) * (np.diff(inputs.indptr) > 0)


def _needed(matrix: sp.csr_matrix, rows: np.ndarray) -> np.ndarray:
    """bool [N]: rows of the level below that some rows are made of: their neighbours' and their own."""
    needed = has_entries(matrix, rows)
    needed[rows] = True
    return needed


def _owned(candidate: Candidate) -> Sequence[np.ndarray]:
    """Of every worker its own vertices, ascending."""
    arrays = candidate.cycle.arrays
    assert arrays
    space = next(space for space in candidate.cycle.spaces.values() if space.level == 0 and space.num_own)
    return [ids[:own] for ids, own in zip(arrays.ids[space.name], space.num_own, strict=True)]
