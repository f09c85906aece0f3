"""Late halos as a technique."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from gnnplan.planner.contracts.candidate import Candidate
from gnnplan.planner.contracts.setting import Setting
from gnnplan.planner.contracts.technique import Choice, Hook, Situation, Stage, Technique
from gnnplan.planner.fidelity import Fidelity
from gnnplan.planner.program.cycle import Cycle
from gnnplan.planner.techniques.late_halos.late import use_late
from gnnplan.profiles.contract import Contract


class Late(Contract):
    """Nothing is to be decided: it is done or not."""


class LateHalos(Technique[Late]):
    """All halo rows, and the gradients returned for them, are those of the epoch before, and travel meanwhile.

    It is PipeGCN, without its smoothing, to compare others with. It is asked for by `pin.techniques`.
    """

    name = "late_halos"
    Decision = Late
    claims = frozenset({"rows:kept", "step rule", "pace"})
    needs = frozenset({"halo rows"})
    costs = "stale(2)"
    least = Fidelity("stale", 2)

    def fidelity(self, decision: Late) -> Fidelity:
        return Fidelity("stale", 2)

    def hooks(self) -> Mapping[Stage, Hook[Late]]:
        return {Stage.TRAVEL: _late}

    def words(self, decision: Late) -> str:
        return "Halo rows, and the gradients returned for them, are those of the epoch before."

    def brief(self, decision: Late) -> str:
        return "halo rows of the epoch before"

    def options(self, setting: Setting, so_far: Candidate | None) -> Iterable[Choice | None]:
        asked = setting.num_workers > 1 and setting.job.pin.asked.get(self.name)
        return (Choice(self.name, Late()),) if asked else (None,)


def _late(cycle: Cycle, decision: Late, situation: Situation) -> Cycle:
    return use_late(cycle)
