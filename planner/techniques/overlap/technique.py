"""Overlap as a technique."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from gnnplan.planner.contracts.candidate import Candidate
from gnnplan.planner.contracts.setting import Setting
from gnnplan.planner.contracts.technique import Choice, Hook, Situation, Stage, Technique
from gnnplan.planner.program.cycle import Cycle
from gnnplan.planner.techniques.overlap.lanes import overlap_exchanges
from gnnplan.profiles.contract import Contract


class Beside(Contract):
    """Where waiting stands.

    Args:
        waits_late: what waits for an exchange comes after what does not, until the next exchange has begun.
    """

    waits_late: bool = False


class Overlap(Technique[Beside]):
    """Rows travel while workers compute, and every exchange begins as soon as its rows are there."""

    name = "overlap"
    Decision = Beside
    claims = frozenset({"transport:order"})
    pins = frozenset({"waits_late"})

    def hooks(self) -> Mapping[Stage, Hook[Beside]]:
        return {Stage.LANES: _overlap}

    def words(self, decision: Beside) -> str:
        late = " Whatever need not wait for the last exchange is computed first." if decision.waits_late else ""
        return f"Rows travel while workers compute.{late}"

    def brief(self, decision: Beside) -> str:
        return "exchanges overlapped, waiting late" if decision.waits_late else "exchanges overlapped"

    def options(self, setting: Setting, so_far: Candidate | None) -> Iterable[Choice | None]:
        pinned, settled = setting.job.pin.overlap, setting.job.pin.decisions.get(self.name, {})
        late = [settled["waits_late"]] if "waits_late" in settled else [False, True]
        beside = [Choice(self.name, Beside.model_validate({"waits_late": each})) for each in late]
        if setting.num_workers == 1 or pinned is False:
            return (None,)
        return beside if pinned else (None, *beside)


def _overlap(cycle: Cycle, decision: Beside, situation: Situation) -> Cycle:
    return overlap_exchanges(cycle, waits_late=decision.waits_late)
