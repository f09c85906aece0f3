"""Offload as a technique."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from gnnplan.planner.contracts.candidate import Candidate
from gnnplan.planner.contracts.setting import Setting
from gnnplan.planner.contracts.technique import Choice, Hook, Situation, Stage, Technique
from gnnplan.planner.program.cycle import Cycle
from gnnplan.planner.techniques.offload.between import put_between_halves
from gnnplan.planner.techniques.offload.outside import keep_outside
from gnnplan.planner.techniques.offload.read_rows import take_what_is_read
from gnnplan.profiles.contract import Contract
from gnnplan.profiles.errors import UserError


class Outside(Contract):
    """Nothing is to be decided: it is done or not."""


class Offload(Technique[Outside]):
    """Rows of vertices lie in files, and each range of them is read where it is needed."""

    name = "offload"
    Decision = Outside
    claims = frozenset({"rows:outside"})
    needs = frozenset({"rows in turn"})
    sums_only = True

    def hooks(self) -> Mapping[Stage, Hook[Outside]]:
        return {Stage.SPLIT: _take, Stage.STORAGE: _put_outside}

    def words(self, decision: Outside) -> str:
        return "Rows of vertices lie on disk, and each range of them is read where it is needed."

    def brief(self, decision: Outside) -> str:
        return "rows on disk"

    def options(self, setting: Setting, so_far: Candidate | None) -> Iterable[Choice | None]:
        """None where everything fits without it, for it saves memory and not seconds."""
        outside, fault, is_asked = Choice(self.name, Outside()), _fault(setting), setting.job.pin.asked.get(self.name)
        if is_asked and fault:
            raise UserError(f"pin.techniques.offload: {fault}")
        if is_asked:
            return (outside,)
        if fault or so_far is None or (so_far.fits and not so_far.choice(self.name)):
            return (None,)
        return (None, outside)

    def fault(self, choice: Choice, setting: Setting) -> str | None:
        return _fault(setting)


def _fault(setting: Setting) -> str | None:
    on_gpu = sorted({name for name, profile in setting.placement.profiles.items() if profile.device_kind == "cuda"})
    return f"rows on disk are read by CPUs alone so far, and {on_gpu[0]} is a GPU" if on_gpu else None


def _take(cycle: Cycle, decision: Outside, situation: Situation) -> Cycle:
    return take_what_is_read(cycle, situation.memo.cut("rows read", dict))


def _put_outside(cycle: Cycle, decision: Outside, situation: Situation) -> Cycle:
    return put_between_halves(keep_outside(cycle))
