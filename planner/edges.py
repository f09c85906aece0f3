"""Edge sets as sorted int64 keys `source * N + target`: one in-place sort merges and orders them."""

from __future__ import annotations

import numpy as np

_CHUNK = 1 << 24


def edge_keys(num_nodes: int, source: np.ndarray, target: np.ndarray) -> np.ndarray:
    """int64 [E] of `source * num_nodes + target`, in the order given (num_nodes below 2**31)."""
    keys = source.astype(np.int64)
    keys *= num_nodes
    keys += target
    return keys


def distinct(keys: np.ndarray) -> np.ndarray:
    """Sorts `keys` IN PLACE and returns the distinct ones, a view or a copy."""
    keys.sort()
    if len(keys) < 2:
        return keys
    is_first = np.empty(len(keys), bool)
    is_first[0] = True
    np.not_equal(keys[1:], keys[:-1], out=is_first[1:])
    return keys if is_first.all() else keys[is_first]


def edges_from_keys(num_nodes: int, keys: np.ndarray) -> np.ndarray:
    """int32 [2, E] of the pairs that `edge_keys` encoded."""
    edge_index = np.empty((2, len(keys)), np.int32)
    for start in range(0, len(keys), _CHUNK):
        chunk = slice(start, start + _CHUNK)
        source, target = np.divmod(keys[chunk], num_nodes)
        edge_index[0, chunk] = source
        edge_index[1, chunk] = target
    return edge_index


def symmetric_keys(num_nodes: int, edge_index: np.ndarray, *, drop_self_loops: bool) -> np.ndarray:
    """Sorted distinct keys of every edge [2, E] and its reverse."""
    source, target = edge_index
    if drop_self_loops and (source == target).any():
        keep = source != target
        source, target = source[keep], target[keep]
    num_edges = len(source)
    keys = np.empty(2 * num_edges, np.int64)
    keys[:num_edges] = edge_keys(num_nodes, source, target)
    keys[num_edges:] = edge_keys(num_nodes, target, source)
    return distinct(keys)
