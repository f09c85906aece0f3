"""Overlap ratio of halo vertices, and by it the rows each worker keeps."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from planner.halo import Halo


def overlap_ratio(halo: Halo) -> np.ndarray:
    """R(v), int64 [N]: how many workers have vertex v in their halo (CaPGNN, equation 2)."""
    num_nodes = sum(len(block.vertices) for block in halo.blocks)
    return np.bincount(np.concatenate([block.halo for block in halo.blocks]), minlength=num_nodes)


def kept_rows(halo: Halo, num_rows: Sequence[int]) -> tuple[np.ndarray, ...]:
    """Which halo rows each worker keeps, bool [h]: the `num_rows` of highest R(v), of equals the first in its halo."""
    ratio = overlap_ratio(halo)
    kept = []
    for block, count in zip(halo.blocks, num_rows, strict=True):
        mask = np.zeros(len(block.halo), bool)
        mask[np.argsort(-ratio[block.halo], kind="stable")[:count]] = True
        kept.append(mask)
    return tuple(kept)


def kept_sent(halo: Halo, kept: Sequence[np.ndarray], sender: int) -> np.ndarray:
    """Which of the rows a worker sends are kept by their receivers, bool [s], in the order it sends them."""
    return np.concatenate([mask[block.halo_owner == sender] for block, mask in zip(halo.blocks, kept, strict=True)])


def fresh_counts(halo: Halo, kept: Sequence[np.ndarray]) -> np.ndarray:
    """int64 [W, W]: rows from worker p to worker q that q does not keep."""
    size = halo.num_workers
    columns = [np.bincount(b.halo_owner[~mask], minlength=size) for b, mask in zip(halo.blocks, kept, strict=True)]
    return np.stack(columns, axis=1)
