"""Contents of what operators read: cut once by the planner, loaded by workers, decided again by nobody."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np
import scipy.sparse as sp


@dataclass(frozen=True)
class Arrays:
    """By name, then by worker. Names that mean the same share the same objects.

    Args:
        ids: int64 global vertex ids of a space's rows.
        matrices: CSR float32 with int32 columns, of a block.
        rows: int64 rows of an index.
        entries: int64 [N], stored entries of every vertex's row of a sparse input; the planner's alone.
    """

    ids: Mapping[str, tuple[np.ndarray, ...]] = field(default_factory=dict)
    matrices: Mapping[str, tuple[sp.csr_matrix, ...]] = field(default_factory=dict)
    rows: Mapping[str, tuple[np.ndarray, ...]] = field(default_factory=dict)
    entries: Mapping[str, np.ndarray] = field(default_factory=dict)

    def of_worker(self, worker: int) -> Arrays:
        """What one worker needs."""
        return Arrays(
            {name: (each[worker],) for name, each in self.ids.items()},
            {name: (each[worker],) for name, each in self.matrices.items()},
            {name: (each[worker],) for name, each in self.rows.items()},
        )
