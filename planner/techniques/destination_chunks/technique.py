"""Destination chunks as a technique."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Annotated

from pydantic import Field

from gnnplan.planner.contracts.candidate import Candidate
from gnnplan.planner.contracts.counts import Counts
from gnnplan.planner.contracts.setting import Setting
from gnnplan.planner.contracts.technique import Choice, Hook, Situation, Stage, Technique
from gnnplan.planner.program.cycle import Cycle
from gnnplan.planner.techniques.destination_chunks.chunk import in_chunks
from gnnplan.planner.techniques.destination_chunks.counts import with_counts_of_chunks
from gnnplan.planner.techniques.destination_chunks.recompute import Recompute, recompute
from gnnplan.planner.techniques.destination_chunks.taken_again import take_again
from gnnplan.profiles.contract import Contract

COUNTS = (2, 4, 8, 16)
"""Chunks that are tried where a worker's memory does not suffice."""
_MORE = (32, 64, 100)
"""Where no graph is cut for it."""


_AGAIN = {"attention": "attention again", "sums": "attention and sums again"}


class Ranges(Contract):
    """Into how many ranges the rows of every sum over edges are cut.

    Args:
        num_chunks: C; 1 leaves everything whole.
        recompute: what the backward half computes again, chunk by chunk: `nothing`, `attention`'s values on edges, or
            `sums` over edges too. All else is kept.
    """

    num_chunks: Annotated[int, Field(ge=1, le=100)] = 4
    recompute: Recompute = "sums"


class DestinationChunks(Technique[Ranges]):
    """Sums over edges, and what follows them row by row, are made one range of rows after another, in less memory."""

    name = "destination_chunks"
    Decision = Ranges
    claims = frozenset({"rows:in turn"})
    pins = frozenset({"num_chunks", "recompute"})
    offers = frozenset({"rows in turn"})
    saves_memory = True
    sums_only = True

    def hooks(self) -> Mapping[Stage, Hook[Ranges]]:
        return {Stage.SPLIT: _cut, Stage.STORAGE: _keep_less}

    def words(self, decision: Ranges) -> str:
        if decision.num_chunks == 1:
            return "Sums over edges make all of their rows at once."
        again = (
            "" if decision.recompute == "nothing" else f", and the backward half computes {_AGAIN[decision.recompute]}"
        )
        return f"Sums over edges make their rows in {decision.num_chunks} chunks, one after another{again}."

    def brief(self, decision: Ranges) -> str:
        return f"{decision.num_chunks} destination chunks" if decision.num_chunks > 1 else ""

    def options(self, setting: Setting, so_far: Candidate | None) -> Iterable[Choice | None]:
        """None where everything fits without it, for chunks save memory and not seconds."""
        pin = setting.job.pin
        if pin.asked.get(self.name):
            fields = pin.decisions.get(self.name, {})
            counts = (fields["num_chunks"],) if "num_chunks" in fields else COUNTS
            return tuple(Choice(self.name, Ranges.model_validate({**fields, "num_chunks": count})) for count in counts)
        if so_far is None or (so_far.fits and not so_far.choice(self.name)):
            return (None,)
        return (None, *(Choice(self.name, Ranges(num_chunks=count)) for count in COUNTS))

    def to_save(self, setting: Setting) -> Iterable[Choice]:
        return (Choice(self.name, Ranges(num_chunks=count)) for count in (*COUNTS, *_MORE))

    def counted_on(self, cycle: Cycle, counts: Counts, decision: Ranges) -> Cycle:
        return with_counts_of_chunks(cycle)


def _cut(cycle: Cycle, decision: Ranges, situation: Situation) -> Cycle:
    return in_chunks(cycle, decision.num_chunks, situation.memo.cut("destination chunks", dict))


def _keep_less(cycle: Cycle, decision: Ranges, situation: Situation) -> Cycle:
    if decision.num_chunks == 1:
        return cycle
    return recompute(take_again(cycle), decision.recompute)
