"""The rows of others that workers receive while they train, and which of them they could keep."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import numpy as np

from gnnplan.planner.contracts.candidate import Candidate
from gnnplan.planner.costs import FLOAT_BYTES
from gnnplan.planner.program.constant import constant_values
from gnnplan.planner.program.cycle import EVALUATE, Cycle
from gnnplan.planner.program.labels import Label, brings
from gnnplan.planner.program.parts import Operator

_HALVINGS = 3  # of what fits by its own bytes, for keeping rows takes more than the rows


def received_rows(
    candidate: Candidate, *, constant: bool | None, in_epochs: bool = False
) -> tuple[np.ndarray, np.ndarray]:
    """Rows that workers receive: int32 [3, n] by (level, worker, vertex), and float64 [n] the bytes of each.

    Rows that hosts hold for their workers are not among them.

    Args:
        constant: rows of what is the same in every epoch, or all others (None: both).
        in_epochs: only dense rows that are received in every epoch, and are not kept.
    """
    cycle, found = candidate.cycle, [(np.empty((3, 0), np.int32), np.empty(0))]
    programs = cycle.programs if not in_epochs else {name: cycle.programs[name] for name in cycle.order}
    for op in _exchanges(replace(cycle, programs=programs), constant=constant):
        if in_epochs and not (brings(op, (Label.SENT,)) and cycle.values[op.writes[0]].layout == "dense"):
            continue
        value = cycle.values[op.writes[0]]
        for worker, ids in enumerate(cycle.arrays.ids[value.space]):  # type: ignore[union-attr]
            rows = np.stack([np.full(len(ids), op.attributes["level"]), np.full(len(ids), worker), ids])
            found.append((rows.astype(np.int32), np.full(len(ids), float(value.width * FLOAT_BYTES))))
    rows, num_bytes = (np.concatenate(each, axis=-1) for each in zip(*found, strict=True))
    rows, at = _distinct(rows)
    return rows, np.bincount(at, weights=num_bytes, minlength=rows.shape[1])


def _distinct(rows: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Ascending distinct columns of a small table of numbers, and which of them each column is."""
    extents = rows.max(1, initial=0) + 1
    _, first, at = np.unique(np.ravel_multi_index(tuple(rows), tuple(extents)), return_index=True, return_inverse=True)
    return rows[:, first], at


def _exchanges(cycle: Cycle, *, constant: bool | None) -> Iterator[Operator]:
    """Exchanges of halo rows, those that bring the same value once."""
    seen: set[str] = set()
    for name, program in cycle.programs.items():
        if name == EVALUATE:
            continue
        same = constant_values(cycle, program) | {v for v, of in cycle.values.items() if of.role == "cell"}
        is_setup = name not in cycle.order
        for op in program:
            is_halo = op.kind == "exchange" and "level" in op.attributes and not op.attributes.get("back")
            is_asked = constant is None or (is_setup or op.reads[0] in same) == constant
            if is_halo and is_asked and op.writes[0] not in seen and not brings(op, (Label.SHARED,)):
                seen.add(op.writes[0])
                yield op


def kept_rows(candidate: Candidate, *, constant: bool) -> Iterator[np.ndarray]:
    """Rows worth keeping, int32 [3, n]: all that are received, or as many as there is room for, then fewer.

    Rows that many workers receive come first (the overlap ratio of CaPGNN, section 4.2).
    """
    rows, num_bytes = received_rows(candidate, constant=constant)
    if not rows.size:
        return
    room = np.maximum(-candidate.missing_bytes, 0).astype(float)
    needed = np.bincount(rows[1], weights=num_bytes, minlength=len(room))
    is_ample = bool((2 * needed <= room).all())
    order = _by_overlap(rows)
    for halving in range(1 if is_ample else 1 + _HALVINGS):
        fitting = _within(rows[:, order], num_bytes[order], np.minimum(needed, room) / 2**halving)
        if fitting.size:
            yield fitting


def _by_overlap(rows: np.ndarray) -> np.ndarray:
    """The order in which rows are kept: those that most workers receive first, of equals by vertex."""
    distinct, at = _distinct(rows[[0, 2]])
    counts = np.bincount(at, minlength=distinct.shape[1])
    return np.lexsort((rows[2], -counts[at]))


def _within(rows: np.ndarray, num_bytes: np.ndarray, room: np.ndarray) -> np.ndarray:
    """The first rows of every worker that its room holds, in their order again."""
    fits = np.zeros(rows.shape[1], bool)
    for worker, bytes_left in enumerate(room):
        mine = np.flatnonzero(rows[1] == worker)
        fits[mine] = np.cumsum(num_bytes[mine]) <= bytes_left
    chosen = rows[:, fits]
    return chosen[:, np.lexsort(chosen[::-1])]
