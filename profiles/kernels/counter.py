"""Counter-based random bits: a 64-bit hash of what a draw is for, with no state to carry along.

All of it is integer arithmetic modulo 2^64, so every device and every order of work gives the same bits.
"""

from __future__ import annotations

from typing import Any

import numpy as np

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


def splitmix_at(state: Any, counter: Any) -> Any:
    """Output number `counter` (from 0) of the splitmix64 stream that starts at `state`; arrays of uint64."""
    z = state + (counter + np.uint64(1)) * np.uint64(GOLDEN)
    z = (z ^ (z >> np.uint64(30))) * np.uint64(MIX_1)
    z = (z ^ (z >> np.uint64(27))) * np.uint64(MIX_2)
    return z ^ (z >> np.uint64(31))
