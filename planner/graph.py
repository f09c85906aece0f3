"""The in-memory graph every loader returns and every later step reads."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np
import scipy.sparse as sp

from gnnplan.planner.pairs import Pairs
from gnnplan.profiles.errors import UserError


@dataclass(frozen=True)
class Graph:
    """A directed graph with features, labels and splits, in PyG's conventions.

    Shapes: N vertices, E edges, F features, C classes.

    Args:
        num_nodes: N; trailing vertices may be isolated.
        edge_index: int32 or int64 [2, E]; row 0 source, row 1 target; a message goes 0 -> 1.
        x: float32 [N, F] dense, or a scipy CSR float32 [N, F] where most entries are zero.
        y: int64 [N] class ids with -1 unlabelled, or float32 [N, C]: label sets of 0 and 1, or targets to regress on.
        train_mask, val_mask, test_mask: bool [N].
        num_classes: C, also of targets.
        name: for reports.
        edge_values: by name what modules may ask for: float32 [E] or [E, D], `edge_weight` or `edge_attr`; int64 [E],
            `edge_type`, numbered from 0.
        pairs: of a link prediction, what it trains on and is measured by. `num_classes` is the width of its embeddings
            then, `y` says nothing, and the masks have the heads of each split's edges.
    """

    num_nodes: int
    edge_index: np.ndarray
    x: np.ndarray | sp.csr_matrix
    y: np.ndarray
    train_mask: np.ndarray
    val_mask: np.ndarray
    test_mask: np.ndarray
    num_classes: int
    name: str
    edge_values: Mapping[str, np.ndarray] = field(default_factory=dict)
    pairs: Pairs | None = None

    def __repr__(self) -> str:
        sizes = f"{self.num_nodes:,} vertices, {self.num_edges:,} edges"
        told = f"{self.num_classes} classes"
        if self.pairs:
            told = f"{self.pairs.trained.num_pairs:,} pairs to train on"
        return f"Graph({self.name!r}: {sizes}, {self.num_features} features, {told})"

    @property
    def num_edges(self) -> int:
        """Number of directed edges E."""
        return int(self.edge_index.shape[1])

    @property
    def num_features(self) -> int:
        """Feature width F."""
        return int(self.x.shape[1])

    @property
    def is_multilabel(self) -> bool:
        """Whether `y` is a [N, C] matrix of independent labels, or targets."""
        return self.y.ndim == 2

    @cached_property
    def holds_sets(self) -> bool:
        """Whether the labels of the splits, [N, C], are 0 and 1 alone."""
        told = self.train_mask | self.val_mask | self.test_mask
        return self.is_multilabel and bool(np.isin(self.y[told], (0, 1)).all())

    @property
    def has_sparse_features(self) -> bool:
        """Whether `x` is held as a scipy CSR matrix."""
        return sp.issparse(self.x)

    def validate(self) -> Graph:
        """Checks shapes, ranges and finiteness; `UserError` in one line on the first fault."""
        n, name = self.num_nodes, self.name
        if n <= 0:
            raise UserError(f"{name}: the graph has no vertices")
        if self.edge_index.ndim != 2 or self.edge_index.shape[0] != 2:
            raise UserError(f"{name}: edge_index must have shape [2, E], found {self.edge_index.shape}")
        if self.num_edges:
            low, high = int(self.edge_index.min()), int(self.edge_index.max())
            if low < 0 or high >= n:
                bad = low if low < 0 else high
                raise UserError(f"{name}: edge_index holds vertex {bad}, outside 0..{n - 1}")
        self._validate_features()
        self._validate_labels()
        return self

    def _validate_features(self) -> None:
        if self.x.ndim != 2 or self.x.shape[0] != self.num_nodes or self.x.shape[1] == 0:
            raise UserError(f"{self.name}: x must have shape [{self.num_nodes}, F > 0], found {self.x.shape}")
        values = self.x.data if self.has_sparse_features else self.x
        if not np.isfinite(values).all():
            raise UserError(f"{self.name}: features hold NaN or infinity; clean them first")

    def _validate_labels(self) -> None:
        n, name = self.num_nodes, self.name
        if self.y.ndim not in (1, 2):
            raise UserError(f"{name}: y must have shape [{n}] or [{n}, C], found {self.y.shape}")
        if self.y.shape[0] != n:
            raise UserError(f"{name}: y has {self.y.shape[0]} rows for {n} vertices")
        for key in ("train_mask", "val_mask", "test_mask"):
            mask = getattr(self, key)
            if mask.shape != (n,) or mask.dtype != bool:
                raise UserError(f"{name}: {key} must be bool [{n}], found {mask.dtype} {mask.shape}")
        if not self.train_mask.any():
            raise UserError(f"{name}: no training vertex; give a split")
        if self.is_multilabel:
            if self.y.shape[1] != self.num_classes:
                raise UserError(f"{name}: multi-label y has {self.y.shape[1]} columns for {self.num_classes} classes")
            if not np.isfinite(self.y[self.train_mask | self.val_mask | self.test_mask]).all():
                raise UserError(f"{name}: a vertex of the split has labels of NaN or infinity")
            return
        if int(self.y.max()) >= self.num_classes or int(self.y.min()) < -1:
            raise UserError(f"{name}: y holds a class outside -1..{self.num_classes - 1}")
        if (self.y[self.train_mask | self.val_mask | self.test_mask] < 0).any():
            raise UserError(f"{name}: a vertex of the split has no label (-1)")

    @cached_property
    def fingerprint(self) -> str:
        """First 16 hex digits of a SHA-256 over everything that training depends on."""
        digest = hashlib.sha256(f"{self.num_nodes},{self.num_classes}".encode())
        x = self.x
        features = [x] if isinstance(x, np.ndarray) else [x.data, x.indices, x.indptr]
        masks = [self.train_mask, self.val_mask, self.test_mask]
        for array in [self.edge_index, self.y, *features, *masks]:
            digest.update(f"{array.dtype}{array.shape}".encode())
            digest.update(np.ascontiguousarray(array).data)
        for name, values in sorted(self.edge_values.items()):
            digest.update(f"{name}{values.dtype}{values.shape}".encode())
            digest.update(np.ascontiguousarray(values).data)
        for table in self.pairs.named().values() if self.pairs else ():
            for array in table.arrays():
                digest.update(f"{array.dtype}{array.shape}".encode())
                digest.update(np.ascontiguousarray(array).data)
        return digest.hexdigest()[:16]
