"""Rows that a decision is about, as one array of a plan."""

from __future__ import annotations

import numpy as np

from gnnplan.planner.program.labels import Label, Labels


def mark_rows(labels: Labels, rows: np.ndarray, label: Label) -> Labels:
    """The labels with rows marked.

    Args:
        rows: int32 [3, n], the level, worker and vertex of every row.
    """
    groups, at = np.unique(rows[:2], axis=1, return_inverse=True)
    order = np.argsort(at, kind="stable")
    bounds = np.searchsorted(at[order], np.arange(1, groups.shape[1]))
    for (level, worker), chosen in zip(groups.T.tolist(), np.split(order, bounds), strict=False):
        labels = labels.marked(level, worker, rows[2, chosen], label)
    return labels
