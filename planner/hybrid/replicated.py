"""What the workers of a partition make of each other's vertices under one decision, as plans are made from it."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from gnnplan.planner.hybrid.memory import Staging
from gnnplan.planner.hybrid.sizes import Replicas


@dataclass(frozen=True)
class Replicated:
    """Every worker's split, and what it may be split into while it runs.

    Args:
        replicas: sizes under the planned splits.
        most: no fewer rows of any kind than under any split allowed while it runs; the planned where none is.
        staging: of each worker.
        cached, staged: int32 [3, C] and [3, S], (worker, level, vertex): what is cached, and all that may be.
    """

    replicas: Replicas
    most: Replicas
    staging: tuple[Staging, ...]
    cached: np.ndarray
    staged: np.ndarray
