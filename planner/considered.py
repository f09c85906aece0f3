"""What a plan keeps of the search that found it: what was looked at, and the best of what was not chosen."""

from __future__ import annotations

from typing import Literal, TypeAlias

from pydantic import Field

from gnnplan.profiles.contract import Contract
from gnnplan.profiles.limits import Seconds

EndedBy: TypeAlias = Literal["", "time", "gap"]


class Candidate(Contract):
    """A decision that was considered, in one line, with its predicted epoch."""

    summary: str
    epoch_s: float
    fits: bool = True


class Searched(Contract):
    """What a search looked at, and what it proves.

    Args:
        num_candidates: composed and simulated.
        num_sets: of workers that could take part. `num_passed_over` of them were not looked at, for no plan of theirs
            is better than the one that was chosen; and `num_left` were not, for the search ended before.
        ended_by: what ended it before it had looked at everything, the job's `search.longest_s` or `search.gap`.
        bound_s: no plan that is made, layer by layer, of what was looked at has shorter epochs; `bound_resource` says
            what sets it.
    """

    num_candidates: int = Field(ge=1)
    num_sets: int = Field(ge=1)
    num_passed_over: int = Field(ge=0)
    num_left: int = Field(default=0, ge=0)
    ended_by: EndedBy = ""
    bound_s: Seconds
    bound_resource: str


class Rejected(Contract):
    """The best candidate of a kind that the search looked at and did not choose.

    Args:
        kind: one worker `alone`; some other set of `workers`; on the same workers `without` a technique that the plan
            has, `with` one that it has not, or with the same ones `decided` otherwise; faster, but lacking `memory`; of
            another form of the `model`, whose accuracy is its own.
        technique: that it is without, or with.
        compute_s, communicate_s, host_s: as `Prediction` has them.
        missing_bytes: of the worker that lacks most (0: it fits).
        missing_on: that worker's host.
    """

    kind: Literal["alone", "workers", "without", "with", "decided", "memory", "model"]
    technique: str = ""
    summary: str
    epoch_s: float = Field(gt=0)
    compute_s: float = Field(ge=0)
    communicate_s: float = Field(ge=0)
    host_s: float = Field(ge=0)
    missing_bytes: int = Field(default=0, ge=0)
    missing_on: str = ""
