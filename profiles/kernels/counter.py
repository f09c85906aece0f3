"""Counter-based random bits: a 64-bit hash of what a draw is for, with no state to carry along.

All of it is integer arithmetic modulo 2^64, so every device and every order of work gives the same bits.
"""

from __future__ import annotations

import numpy as np
from numba import njit

GOLDEN = 0x9E3779B97F4A7C15
MIX_1 = 0xBF58476D1CE4E5B9
MIX_2 = 0x94D049BB133111EB
MASK_64 = (1 << 64) - 1


def chained_key(*parts: int) -> int:
    """A 64-bit key from integers whose order counts, by splitmix64 (Steele et al. 2014)."""
    key = 0
    for part in parts:
        key = _splitmix((key + part) & MASK_64)
    return key


def _splitmix(state: int) -> int:
    z = (state + GOLDEN) & MASK_64
    z = ((z ^ (z >> 30)) * MIX_1) & MASK_64
    z = ((z ^ (z >> 27)) * MIX_2) & MASK_64
    return z ^ (z >> 31)


@njit(nogil=True, cache=True)
def splitmix_at(state, counter):  # pragma: no cover - compiled
    """Output number `counter` (from 0) of the splitmix64 stream that starts at `state`; all uint64."""
    z = state + (counter + np.uint64(1)) * np.uint64(GOLDEN)
    z = (z ^ (z >> np.uint64(30))) * np.uint64(MIX_1)
    z = (z ^ (z >> np.uint64(27))) * np.uint64(MIX_2)
    return z ^ (z >> np.uint64(31))


@njit(nogil=True, cache=True)
def bounded(bits, width):  # pragma: no cover - compiled
    """An int64 in 0..width - 1 from uint64 bits: the upper 32 of them times the width, shifted down.

    Width must be in 1..2^31 - 1. A value's probability is off from 1 / width by less than 2^-32,
    so the distribution as a whole by less than width * 2^-32.
    """
    return np.int64(((bits >> np.uint64(32)) * np.uint64(width)) >> np.uint64(32))
