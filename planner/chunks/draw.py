"""Which chunk every vertex belongs to: a pure function of a seed, so that all workers know it without a word."""

from __future__ import annotations

from typing import Literal

import numpy as np

from gnnplan.profiles.kernels.counter import GOLDEN, MIX_1, MIX_2, chained_key

Draws = Literal["equal", "independent"]
_STREAM = 0x63_68_75_6E_6B  # "chunk": apart from what else is drawn from the same seed


def chunk_of(num_nodes: int, num_chunks: int, seed: int, shuffle: int = 0, draws: Draws = "equal") -> np.ndarray:
    """int64 [N]: the chunk of every vertex, 0 to num_chunks - 1.

    Args:
        shuffle: which of several divisions.
        draws: `equal` deals a random permutation out, so sizes differ by one at most. `independent` draws each
            vertex's chunk by itself, uniformly (Emma, equation 2).
    """
    bits = _bits(chained_key(_STREAM, seed, shuffle), num_nodes)
    if draws == "independent":  # the upper half of the bits, as `counter.bounded` takes them
        return ((bits >> np.uint64(32)) * np.uint64(num_chunks) >> np.uint64(32)).astype(np.int64)
    found = np.empty(num_nodes, np.int64)
    found[np.argsort(bits, kind="stable")] = np.arange(num_nodes) % num_chunks
    return found


def _bits(key: int, count: int) -> np.ndarray:
    """uint64 [count]: the first outputs of the splitmix64 stream that starts at a key."""
    with np.errstate(over="ignore"):  # modulo 2^64 is what is meant
        z = np.uint64(key) + np.arange(1, count + 1, dtype=np.uint64) * np.uint64(GOLDEN)
        z = (z ^ (z >> np.uint64(30))) * np.uint64(MIX_1)
        z = (z ^ (z >> np.uint64(27))) * np.uint64(MIX_2)
        return z ^ (z >> np.uint64(31))
