"""The five questions every technique answers."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from gnnplan.planner.cluster import Placement
from gnnplan.planner.graph import Graph
from gnnplan.planner.hybrid.replicated import Replicated
from gnnplan.planner.job import Job
from gnnplan.planner.plan import Candidate, FullBatchDecision, WorkerLoad
from gnnplan.planner.schedule import Schedule
from gnnplan.planner.simulator.bounds import Bound

OnStep = Callable[[str], None]


@dataclass(frozen=True)
class Problem:
    """What is to be planned: a loaded graph, a job on it, and the workers at hand."""

    graph: Graph
    job: Job
    placement: Placement


@dataclass(frozen=True)
class Decided:
    """A decision with the vertex assignment it rests on, and what else was considered.

    Args:
        part: int32 [N].
        replicated: what workers make of each other's vertices (None: all halo rows are communicated).
    """

    decision: FullBatchDecision
    part: np.ndarray
    considered: tuple[Candidate, ...]
    replicated: Replicated | None = None


class Strategy(Protocol):
    """A technique. Decisions are frozen; everything else is computed from them on demand."""

    def applicable(self, problem: Problem) -> str | None:
        """None where the technique can be used, else the reason why not."""

    def decide(self, problem: Problem, on_step: OnStep) -> Decided:
        """The solver: the fastest decision that fits; `NoPlanFitsError` where none does."""

    def memory(self, problem: Problem, decided: Decided) -> tuple[WorkerLoad, ...]:
        """What each worker holds and its peak bytes, before anything runs."""

    def lower(self, problem: Problem, decided: Decided, *, refresh: bool = True) -> Schedule:
        """The tasks of one epoch; with `refresh` false of one that reuses halo embeddings."""

    def bound(self, problem: Problem) -> Bound:
        """No decision of this kind has a shorter epoch; and what sets it."""
