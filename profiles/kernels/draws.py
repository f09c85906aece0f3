"""Draws by the bits of `gnnplan.profiles.kernels.counter`, compiled for loops that are compiled too."""

from __future__ import annotations

import numpy as np
from numba import njit

from gnnplan.profiles.kernels import counter

splitmix_at = njit(nogil=True, cache=True)(counter.splitmix_at)


@njit(nogil=True, cache=True)
def bounded(bits, width):  # pragma: no cover - compiled
    """An int64 in 0..width - 1 from uint64 bits: the upper 32 of them times the width, shifted down.

    Width must be in 1..2^31 - 1. A value's probability is off from 1 / width by less than 2^-32,
    so the distribution as a whole by less than width * 2^-32.
    """
    return np.int64(((bits >> np.uint64(32)) * np.uint64(width)) >> np.uint64(32))
