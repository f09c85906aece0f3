"""What one gather needs on the device: matrices or edges of a level, and the exchange of the rows it does not make.

Shapes: n own rows; r replicas and c fetched rows at the level, s replicas at the next, k at the level of a later
product. Rows are own ones first, then replicas.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import scipy.sparse as sp
import torch
from torch import Tensor

from gnnplan.planner.hybrid.matrices import cut_edges, cut_level
from gnnplan.planner.hybrid.split import Split
from gnnplan.profiles.kernels.attention import EdgeBlock
from gnnplan.profiles.kernels.sparse import csr_tensor
from gnnplan.runtime.comm import HaloExchanger


@dataclass(frozen=True)
class Pair:
    """A CSR and its transpose."""

    forward: Tensor
    backward: Tensor

    @classmethod
    def of(cls, matrix: sp.csr_matrix, device: torch.device) -> Pair:
        """Both on the device."""
        return cls(csr_tensor(matrix, device), csr_tensor(matrix.T.tocsr(), device))


@dataclass(frozen=True)
class Kept:
    """Selections of rows that are passed on for replicas of a later level: [k, r + n] of rows here, [k, c] of fetched.

    None of both where k is 0: own rows are passed on as they are.
    """

    here: Pair
    far: Pair

    @classmethod
    def of(cls, split: Split, level: int, later: int, num_local: int, device: torch.device) -> Kept | None:
        """The rows at `level` of the replicas at `later`."""
        wanted, here, fetched = split.replicas(later), split.replicas(level), split.fetched(level)
        if not len(wanted):
            return None
        near, far = (_selection(wanted, places) for places in (here, fetched))
        assert near.nnz + far.nnz == len(wanted), "a replica's own row is neither made nor fetched"
        own = sp.csr_matrix((len(wanted), num_local), dtype=np.float32)
        return cls(Pair.of(sp.hstack([own, near], format="csr"), device), Pair.of(far, device))


def _selection(wanted: np.ndarray, places: np.ndarray) -> sp.csr_matrix:
    """float32 [len(wanted), len(places)]: a one where both are the same place."""
    row = np.flatnonzero(np.isin(wanted, places, assume_unique=True))
    column = np.searchsorted(places, wanted[row])
    return sp.csr_matrix((np.ones(len(row), np.float32), (row, column)), shape=(len(wanted), len(places)))


@dataclass(frozen=True)
class LevelBlock:
    """A gather by matrices; `own` [n, n] is shared by all levels.

    Args:
        near: [n, r]; made: [s, n + r]; far: [n + s, c]; `gnnplan.planner.hybrid.matrices` says of what.
        kept: what it passes on beside own rows.
    """

    own: Pair
    near: Pair
    made: Pair
    far: Pair
    kept: Kept | None
    exchanger: HaloExchanger

    @classmethod
    def of(
        cls, own: Pair, remote: sp.csr_matrix, rows: sp.csr_matrix, split: Split, level: int, later: int | None,
        exchanger: HaloExchanger,
    ) -> LevelBlock:  # fmt: skip
        """The block of a level under a split; rows passed on serve the replicas at `later` (None: there are none)."""
        device = exchanger.send_rows.device
        cut = cut_level(remote, rows, split, level)
        near, made, far = (Pair.of(matrix, device) for matrix in (cut.near, cut.made, cut.far))
        kept = None if later is None else Kept.of(split, level, later, remote.shape[0], device)
        return cls(own, near, made, far, kept, exchanger)


@dataclass(frozen=True)
class LevelEdges:
    """A gather by attention: edges over sources whose first rows are the targets.

    Args:
        edges: of n + s targets over n + r + c sources.
        here, fetched: int64 [r] and [c], where among the sources the replicas and the fetched rows are.
    """

    edges: EdgeBlock
    here: Tensor
    fetched: Tensor
    num_local: int
    exchanger: HaloExchanger

    @classmethod
    def of(
        cls, local: sp.csr_matrix, remote: sp.csr_matrix, rows: sp.csr_matrix, split: Split, level: int,
        exchanger: HaloExchanger,
    ) -> LevelEdges:  # fmt: skip
        """The edges of a level under a split."""
        device = exchanger.send_rows.device
        cut = cut_edges(local, remote, rows, split, level)
        here, fetched = (torch.from_numpy(places).to(device) for places in (cut.here, cut.fetched))
        return cls(EdgeBlock.from_csr(cut.edges, device), here, fetched, local.shape[0], exchanger)
