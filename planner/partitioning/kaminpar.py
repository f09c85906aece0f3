"""Parts by KaMinPar (Gottesbüren et al., ESA 2021), fast on large graphs and good where shares are uneven."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from gnnplan.planner.partitioning.undirected import Undirected

if TYPE_CHECKING:
    pass

# Its file counts bytes in 32 bits; beyond, a sample of the pairs is cut.
MAX_NEIGHBOURS = 1_000_000_000
_IMBALANCE = 1.01  # above the share; what is over there is lacking elsewhere. 1.03 measured no fewer halo rows
_MAX_SEED = 2**31 - 1
# ParHIP's binary format, as KaMinPar reads it. A bit says what is absent or narrow: no edge weights; 32 bits for edge
# ids, vertex ids, vertex weights and edge weights.
_VERSION = 0b111101
_HEADER_BYTES, _INT_BYTES = 24, 4


class KaMinPar:
    """A graph that KaMinPar has loaded: it is cut as often as wanted."""

    def __init__(self, graph: Undirected) -> None:
        import kaminpar  # a compiled library that only this class needs

        with tempfile.TemporaryDirectory(prefix="gnnplan-") as folder:
            path = Path(folder) / "graph.bin"
            _write(graph.sampled(MAX_NEIGHBOURS), path)
            self._graph = kaminpar.load_graph(os.fspath(path), kaminpar.GraphFileFormat.PARHIP)
        self._weight = int(graph.weight.sum())

    def parts(self, shares: np.ndarray, seed: int) -> np.ndarray:
        """int32 [N] in 0..P-1, the same for the same seed; on tiny graphs some parts may stay empty.

        Args:
            shares: float64 [P] of the weight, that sum to 1; a part has at most 1.01 times its share where it can be.
        """
        import kaminpar

        kaminpar.reseed(seed % _MAX_SEED)
        # With one thread the parts are the same every time.
        partitioner = kaminpar.KaMinPar(1, kaminpar.default_context())
        most = np.ceil(_IMBALANCE * shares * self._weight).astype(np.int64)
        return np.array(partitioner.compute_partition(self._graph, max_block_weights=most.tolist()), np.int32)


def _write(graph: Undirected, path: Path) -> None:
    first = _HEADER_BYTES + len(graph.starts) * _INT_BYTES
    with path.open("wb") as file:
        np.array([_VERSION, graph.num_nodes, graph.num_neighbours], np.uint64).tofile(file)
        (first + graph.starts * _INT_BYTES).astype(np.uint32).tofile(file)
        graph.neighbours.astype(np.uint32).tofile(file)
        graph.weight.astype(np.int32).tofile(file)
