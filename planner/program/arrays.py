"""Contents of what operators read: cut once by the planner, loaded by workers, decided again by nobody."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np

from gnnplan.planner.program.cuts import Part, cut_out


@dataclass(frozen=True)
class Arrays:
    """By name, then by worker. Names that mean the same share the same objects.

    Args:
        ids: int64 global vertex ids of a space's rows.
        matrices: CSR float32 with int32 columns, of a block; or a `Cut` that is still to be cut out.
        rows: int64 rows of an index.
        entries: int64 [N], stored entries of every vertex's row of a sparse input; the planner's alone.
    """

    ids: Mapping[str, tuple[np.ndarray, ...]] = field(default_factory=dict)
    matrices: Mapping[str, tuple[Part, ...]] = field(default_factory=dict)
    rows: Mapping[str, tuple[np.ndarray, ...]] = field(default_factory=dict)
    entries: Mapping[str, np.ndarray] = field(default_factory=dict)

    def of_worker(self, worker: int) -> Arrays:
        """What one worker needs, cut out."""
        parts = {name: each[worker] for name, each in self.matrices.items()}
        distinct = {id(part): part for part in parts.values()}
        matrices = {key: cut_out(part) for key, part in distinct.items()}  # each once, for names share them
        return Arrays(
            {name: (each[worker],) for name, each in self.ids.items()},
            {name: (matrices[id(part)],) for name, part in parts.items()},
            {name: (each[worker],) for name, each in self.rows.items()},
        )
