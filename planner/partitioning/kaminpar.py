"""Parts by KaMinPar (Gottesbüren et al., ESA 2021), fast on large graphs and good where shares are uneven."""

from __future__ import annotations

import os
import tempfile
from concurrent.futures import ThreadPoolExecutor
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from gnnplan.planner.partitioning.undirected import Undirected
from gnnplan.profiles.errors import UserError

if TYPE_CHECKING:
    import kaminpar

MAX_NEIGHBOURS = 1_000_000_000  # beyond, a sample of the pairs is cut
_FILE_BYTES = 2**32  # its file counts them in 32 bits
_IMBALANCE = 1.01  # above the share; what is over there is lacking elsewhere. 1.03 measured no fewer halo rows
_MAX_SEED = 2**31 - 1
# ParHIP's binary format, as KaMinPar reads it. A bit says what is absent or narrow: no edge weights; 32 bits for edge
# ids, vertex ids, vertex weights and edge weights.
_VERSION = 0b111101
_HEADER_BYTES, _INT_BYTES = 24, 4


class KaMinPar:
    """A graph that KaMinPar has loaded: it is cut as often as wanted."""

    def __init__(self, graph: Undirected) -> None:
        self._weight = int(graph.weight.sum())
        with tempfile.TemporaryDirectory(prefix="gnnplan-") as folder:
            path = Path(folder) / "graph.bin"
            _write(graph.sampled(most_neighbours(graph.num_nodes)), path)
            self._graph = _thread().submit(_load, path).result()

    def parts(self, shares: np.ndarray, seed: int) -> np.ndarray:
        """int32 [N] in 0..P-1, the same for the same seed; on tiny graphs some parts may stay empty.

        Args:
            shares: float64 [P] of the weight, that sum to 1; a part has at most 1.01 times its share where it can be.
        """
        most = np.ceil(_IMBALANCE * shares * self._weight).astype(np.int64)
        return _thread().submit(_cut, self._graph, most.tolist(), seed % _MAX_SEED).result()


def most_neighbours(num_nodes: int) -> int:
    """So many, and some more, have their places in a file of 32 bits behind those of all vertices."""
    room = (_FILE_BYTES - _HEADER_BYTES) // _INT_BYTES - num_nodes - 1
    if room <= 0:
        raise UserError(f"KaMinPar cuts no graph of {num_nodes:,} vertices; pin another partitioner, such as ranges")
    return max(1, min(MAX_NEIGHBOURS, int(0.99 * room)))  # a sample is only about as large as it should be


@lru_cache(maxsize=1)
def _thread_of(process: int) -> ThreadPoolExecutor:
    return ThreadPoolExecutor(1, thread_name_prefix="kaminpar")


def _thread() -> ThreadPoolExecutor:
    """The one thread of this process that KaMinPar runs on: it draws random numbers by thread."""
    return _thread_of(os.getpid())


@lru_cache(maxsize=1)
def _partitioner() -> kaminpar.KaMinPar:
    """While it lives KaMinPar starts no threads of its own, among which draws would be shared out anyhow."""
    import kaminpar  # a compiled library that only this module needs

    return kaminpar.KaMinPar(1, kaminpar.default_context())


def _load(path: Path) -> kaminpar.Graph:
    import kaminpar

    _partitioner()
    return kaminpar.load_graph(os.fspath(path), kaminpar.GraphFileFormat.PARHIP)


def _cut(graph: kaminpar.Graph, most: list[int], seed: int) -> np.ndarray:
    import kaminpar

    kaminpar.reseed(seed)
    return np.array(_partitioner().compute_partition(graph, max_block_weights=most), np.int32)


def _write(graph: Undirected, path: Path) -> None:
    first = _HEADER_BYTES + len(graph.starts) * _INT_BYTES
    with path.open("wb") as file:
        np.array([_VERSION, graph.num_nodes, graph.num_neighbours], np.uint64).tofile(file)
        (first + graph.starts * _INT_BYTES).astype(np.uint32).tofile(file)
        graph.neighbours.astype(np.uint32).tofile(file)
        graph.weight.astype(np.int32).tofile(file)
