"""What an explanation of a plan says, as data. Seconds are of one epoch, the mean over the cycle's programs."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from gnnplan.planner.plan import Rejected
from gnnplan.profiles.contract import Contract, Shown

Binds = Literal["compute", "port", "wait", "idle"]


class PathPart(Contract):
    """What one worker computes on the critical path, or what one collective takes of it.

    Args:
        collective: in words (empty: the worker computes).
        worker: who computes; of a collective the one whose link takes longest (None: no single one).
        tasks: keys of the tasks that take most of it, the longest first.
        share: of the epoch. The shares of all parts add up to 1.
    """

    collective: str = ""
    worker: int | None = None
    tasks: tuple[str, ...]
    seconds: float = Field(ge=0)
    share: float = Field(ge=0)


class WorkerTime(Contract):
    """What a worker does in a part of the epoch.

    Args:
        what: it computes; its own port moves rows, or it takes part in a sum; it waits for a peer; it is idle until
            others end. What it computes counts before what travels meanwhile.
        peer: whom it waits for.
        share: of the epoch. The shares of a worker add up to 1.
    """

    what: Binds
    peer: int | None = None
    seconds: float = Field(ge=0)
    share: float = Field(ge=0)


class WorkerBinding(Contract):
    """Where a worker's epoch goes, the longest first."""

    worker: int
    host: str
    times: tuple[WorkerTime, ...] = Field(min_length=1)


class Price(Contract):
    """The epoch of the same plan where resources are better, simulated.

    Args:
        resources: in words, all of which are better at once.
        factor: by how much: 1.05 is 5% more speed, or as much less latency.
        moved_s: seconds that the epoch then takes more (negative: less).
        share: of the epoch.
    """

    resources: tuple[str, ...] = Field(min_length=1)
    factor: float = Field(gt=1)
    moved_s: float
    share: float


class Memory(Contract):
    """A worker's memory beside its peak, and what more of it is worth.

    Args:
        spare_bytes: capacity less the predicted peak.
        more_bytes: with which the search was run again (0: it was not).
        moved_s: seconds that the epoch of the plan found then takes more (negative: less).
    """

    worker: int
    host: str
    spare_bytes: int
    more_bytes: int = 0
    moved_s: float = 0.0


class Explanation(Shown):
    """Why a plan takes what it takes.

    Args:
        epoch_s: of the epoch that is shown.
        long_run_epoch_s: of n epochs on end over n, which others are compared with; under a quota more than that.
        path: the critical path of an epoch, the longest part first.
        prices: of one resource each, the one that helps most first.
        combined: larger moves, each simulated and none extrapolated.
        rejected: the best candidate of every kind that was not chosen.
    """

    epoch_s: float = Field(gt=0)
    long_run_epoch_s: float = Field(gt=0)
    compute_s: float = Field(ge=0)
    communicate_s: float = Field(ge=0)
    host_s: float = Field(ge=0)
    path: tuple[PathPart, ...]
    workers: tuple[WorkerBinding, ...]
    prices: tuple[Price, ...]
    combined: tuple[Price, ...]
    memory: tuple[Memory, ...]
    rejected: tuple[Rejected, ...]
