"""Which chunk every vertex belongs to: it follows from a seed and the graph, so all workers know it without a word."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Literal

import numpy as np
import scipy.sparse as sp

from gnnplan.profiles.kernels.counter import GOLDEN, MIX_1, MIX_2, chained_key

Draws = Literal["balanced", "equal", "independent"]
_STREAM = 0x63_68_75_6E_6B  # "chunk": apart from what else is drawn from the same seed


def edges_from(matrices: Iterable[sp.csr_matrix]) -> np.ndarray:
    """int64 [N]: how many edges leave every vertex, in all matrices [N, N] together, self loops left out."""
    found = []
    for matrix in matrices:
        edges = matrix.tocoo()
        found.append(np.bincount(edges.col[edges.row != edges.col], minlength=matrix.shape[1]))
    return np.sum(found, axis=0)


def chunk_of(
    num_edges: np.ndarray, num_chunks: int, seed: int, shuffle: int = 0, draws: Draws = "balanced"
) -> np.ndarray:
    """int64 [N]: the chunk of every vertex, 0 to num_chunks - 1.

    Args:
        num_edges: int [N], edges that leave each vertex: `edges_from`.
        shuffle: which of several divisions.
        draws: `equal` deals a random permutation out, so sizes differ by one at most. `balanced` deals out those with
            about as many edges together, so the edges of chunks are about as many too. `independent` draws each
            vertex's chunk by itself, uniformly (Emma, equation 2).
    """
    key, num_nodes = chained_key(_STREAM, seed, shuffle), len(num_edges)
    if draws == "balanced":
        return _balanced(num_edges, num_chunks, key)
    bits = _bits(key, num_nodes)
    if draws == "independent":  # the upper half of the bits, as `counter.bounded` takes them
        return ((bits >> np.uint64(32)) * np.uint64(num_chunks) >> np.uint64(32)).astype(np.int64)
    found = np.empty(num_nodes, np.int64)
    found[np.argsort(bits, kind="stable")] = np.arange(num_nodes) % num_chunks
    return found


def _balanced(num_edges: np.ndarray, num_chunks: int, key: int) -> np.ndarray:
    """Each B vertices with the most edges that are left go to B chunks: the most edges to where the fewest are.

    Where all B have as many, chance decides alone. So the loop has a round at most for each count of edges that occurs.
    """
    num_nodes, num_rounds = len(num_edges), -(-len(num_edges) // num_chunks)
    bits = _bits(key, num_nodes + num_rounds * num_chunks)
    order = np.lexsort((bits[:num_nodes], -num_edges))
    nobody = np.zeros(num_rounds * num_chunks - num_nodes, np.int64)  # the last round may have too few vertices
    dealt = np.concatenate([num_edges[order], nobody]).reshape(num_rounds, num_chunks)
    chance = bits[num_nodes:].reshape(num_rounds, num_chunks)
    to = np.argsort(chance, axis=1, kind="stable")
    held = np.zeros(num_chunks, np.int64)  # without what all have alike
    for number in np.flatnonzero(dealt[:, 0] != dealt[:, -1]):
        to[number] = np.lexsort((chance[number], held))
        held[to[number]] += dealt[number]
    found = np.empty(num_nodes, np.int64)
    found[order] = to.ravel()[:num_nodes]
    return found


def _bits(key: int, count: int) -> np.ndarray:
    """uint64 [count]: the first outputs of the splitmix64 stream that starts at a key."""
    with np.errstate(over="ignore"):  # modulo 2^64 is what is meant
        z = np.uint64(key) + np.arange(1, count + 1, dtype=np.uint64) * np.uint64(GOLDEN)
        z = (z ^ (z >> np.uint64(30))) * np.uint64(MIX_1)
        z = (z ^ (z >> np.uint64(27))) * np.uint64(MIX_2)
        return z ^ (z >> np.uint64(31))
