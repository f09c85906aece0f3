"""What a plan is searched for, as techniques see it when they say what is worth trying."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Hashable
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, TypeVar

import numpy as np
import scipy.sparse as sp

from gnnplan.planner.cluster import Placement
from gnnplan.planner.costs import OperatorCosts
from gnnplan.planner.graph import Graph
from gnnplan.planner.job import Job
from gnnplan.planner.program.cycle import Cycle

T = TypeVar("T")


class Memo:
    """What was costly to make in one search, by what it was made of.

    What was cut along a layout is as large as the graph, so it is forgotten where much of it has come together.
    """

    def __init__(self) -> None:
        self._lasting: dict[Hashable, Any] = {}
        self._cut: dict[Hashable, Any] = {}

    def lasting(self, key: Hashable, make: Callable[[], T]) -> T:
        """What stands under a key; made where it is asked for the first time, and kept for the whole search."""
        if key not in self._lasting:
            self._lasting[key] = make()
        return self._lasting[key]

    def cut(self, key: Hashable, make: Callable[[], T]) -> T:
        """As `lasting`, of what is large: it may be made again."""
        if key not in self._cut:
            self._cut[key] = make()
        return self._cut[key]

    def one_of(self, array: np.ndarray) -> np.ndarray:
        """The first array with this content, so that what is chosen twice is one choice."""
        content = hashlib.blake2b(array.tobytes(), digest_size=16).digest()
        return self.lasting((array.shape, array.dtype.str, content), lambda: array)

    def forget_cuts(self) -> None:
        """Lets go of what was cut."""
        self._cut.clear()


@dataclass(frozen=True)
class Setting:
    """A job on a loaded graph, and the workers that take part.

    Args:
        matrix: CSR [N, N], the model's aggregation.
        forward: the model's forward programs on one logical worker.
        rates_s: seconds in which each worker alone would work through a whole epoch, at the pace of its share.
        costs: of every profile.
        memo: shared by all settings of one search.
    """

    job: Job
    graph: Graph
    matrix: sp.csr_matrix
    forward: Cycle
    placement: Placement
    rates_s: tuple[float, ...]
    costs: dict[str, OperatorCosts]
    memo: Memo = field(default_factory=Memo, compare=False)

    @property
    def num_workers(self) -> int:
        """Workers that take part."""
        return len(self.placement.workers)

    @property
    def refresh_interval(self) -> int:
        """Epochs from one in which rows that may be reused are sent to the next: pinned, else the most allowed."""
        return self.job.pin.refresh_interval or self.job.most.limit or 1

    def memory_bytes(self, worker: int) -> int:
        """What a worker may use: its memory without the margin that the objective leaves free."""
        return int(self.placement.workers[worker].memory_bytes * (1 - self.job.objective.memory_margin))

    @property
    def may_prune(self) -> bool:
        """Whether edges may be left out."""
        return self.job.most.kind == "approximate" and self.job.pin.prune != "none"

    @cached_property
    def num_levels(self) -> int:
        """Aggregations between the input features and the logits."""
        return max(space.level for space in self.forward.spaces.values() if space.level is not None)
