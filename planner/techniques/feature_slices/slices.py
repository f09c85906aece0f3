"""Which rows and which columns every worker has: contiguous, uneven where shares are, and never padded."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

import numpy as np

Bounds = tuple[tuple[int, int], ...]


def contiguous(count: int, shares: Sequence[float], step: int = 1) -> Bounds:
    """(start, stop) for every share, one behind the other from 0 to `count`, each share rounded.

    Args:
        count: rows, or columns; a multiple of `step`.
        shares: [W], > 0; they are scaled to sum to 1.
        step: all bounds are multiples of it.
    """
    until = np.cumsum(shares) / np.sum(shares)
    stops = np.rint(until * (count // step)).astype(int) * step
    return tuple(pairwise([0, *stops.tolist()]))
