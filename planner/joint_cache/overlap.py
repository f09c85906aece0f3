"""Overlap ratio of halo vertices, and what the rows that are kept leave to be sent."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from gnnplan.planner.halo import Halo


def overlap_ratio(halo: Halo) -> np.ndarray:
    """R(v), int64 [N]: how many workers have vertex v in their halo (CaPGNN, equation 2)."""
    num_nodes = sum(len(block.vertices) for block in halo.blocks)
    return np.bincount(np.concatenate([block.halo for block in halo.blocks]), minlength=num_nodes)


def as_sent(halo: Halo, chosen: Sequence[np.ndarray], sender: int) -> np.ndarray:
    """Which of the rows a worker sends are `chosen` (bool [h] of each receiver), bool [s], in the order it sends."""
    return np.concatenate([mask[block.halo_owner == sender] for block, mask in zip(halo.blocks, chosen, strict=True)])


def fresh_counts(halo: Halo, kept: Sequence[np.ndarray]) -> np.ndarray:
    """int64 [W, W]: rows from worker p to worker q that q does not keep."""
    size = halo.num_workers
    columns = [np.bincount(b.halo_owner[~mask], minlength=size) for b, mask in zip(halo.blocks, kept, strict=True)]
    return np.stack(columns, axis=1)
