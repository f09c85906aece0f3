"""Rows that a decision is about, as one array of a plan."""

from __future__ import annotations

import numpy as np

from gnnplan.planner.program.labels import Label, Labels

NO_ROWS = np.empty((3, 0), np.int32)
"""A decision about no row of a worker's own: other techniques may label some for whatever it does to labels."""


def mark_rows(labels: Labels, rows: np.ndarray, label: Label) -> Labels:
    """The labels with rows marked.

    Args:
        rows: int32 [3, n], the level, worker and vertex of every row.
    """
    if not rows.size:
        return labels
    num_workers = int(rows[1].max()) + 1
    of_worker = rows[0].astype(np.int64) * num_workers + rows[1]  # a number for each level and worker
    order = np.argsort(of_worker, kind="stable")
    groups, first = np.unique(of_worker[order], return_index=True)
    for group, chosen in zip(groups.tolist(), np.split(order, first[1:]), strict=True):
        level, worker = divmod(group, num_workers)
        labels = labels.marked(level, worker, rows[2, chosen], label)
    return labels


def rows_fault(rows: np.ndarray, num_levels: int, num_workers: int, num_nodes: int) -> str | None:
    """What is wrong with an array that should be rows by (level, worker, vertex); None where it is sound."""
    if rows.dtype != np.int32 or rows.ndim != 2 or len(rows) != 3:
        return f"must be int32 [3, n], not {rows.dtype} {list(rows.shape)}"
    limits = np.array([[num_levels], [num_workers], [num_nodes]])
    if ((rows < 0) | (rows >= limits)).any():
        return f"has rows beyond {num_levels} levels, {num_workers} workers and {num_nodes} vertices"
    return None
