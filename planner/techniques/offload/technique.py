"""Offload as a technique."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Literal

from gnnplan.planner.contracts.candidate import Candidate
from gnnplan.planner.contracts.counts import Counts
from gnnplan.planner.contracts.setting import Setting
from gnnplan.planner.contracts.technique import Choice, Hook, Situation, Stage, Technique
from gnnplan.planner.program.cycle import Cycle
from gnnplan.planner.program.parts import Tier
from gnnplan.planner.techniques.offload.between import put_between_halves
from gnnplan.planner.techniques.offload.counts import with_counts_of_read
from gnnplan.planner.techniques.offload.outside import keep_outside
from gnnplan.planner.techniques.offload.read_rows import take_what_is_read
from gnnplan.planner.techniques.offload.visits import put_between_visits
from gnnplan.profiles.contract import Contract
from gnnplan.profiles.errors import PinnedOutError

_TIERS: Mapping[str, Tier] = {"disk": "disk", "host": "pinned"}
_KINDS = {"cpu": "disk", "cuda": "host"}


class Outside(Contract):
    """Where rows lie.

    Args:
        to: `disk`, for workers on CPUs, or the memory of their `host`, for workers on GPUs.
    """

    to: Literal["disk", "host"] = "disk"


class Offload(Technique[Outside]):
    """Rows of vertices lie outside of workers' memory, and each range of them is read where it is needed."""

    name = "offload"
    Decision = Outside
    claims = frozenset({"rows:outside"})
    pins = frozenset({"to"})
    needs = frozenset({"rows in turn"})
    saves_memory = True
    sums_only = True

    def hooks(self) -> Mapping[Stage, Hook[Outside]]:
        return {Stage.SPLIT: _take, Stage.STORAGE: _put_outside}

    def words(self, decision: Outside) -> str:
        where = "on disk" if decision.to == "disk" else "in the host's memory"
        return f"Rows of vertices lie {where}, and each range of them is read where it is needed."

    def brief(self, decision: Outside) -> str:
        return "rows on disk" if decision.to == "disk" else "rows in the host's memory"

    def options(self, setting: Setting, so_far: Candidate | None) -> Iterable[Choice | None]:
        """None where everything fits without it, for it saves memory and not seconds."""
        pin, is_asked, fault = setting.job.pin, setting.job.pin.asked.get(self.name), _mixed(setting)
        if is_asked and fault:
            raise PinnedOutError(f"pin.techniques.offload: {fault}")
        if fault:
            return (None,)
        fields = {"to": _KINDS[_kinds(setting)[0]], **pin.decisions.get(self.name, {})}
        outside = Choice(self.name, Outside.model_validate(fields))
        if is_asked:
            if wrong := self.fault(outside, setting):
                raise PinnedOutError(f"pin.decisions.offload: {wrong}")
            return (outside,)
        if so_far is None or (so_far.fits and not so_far.choice(self.name)):
            return (None,)
        return (None, outside)

    def to_save(self, setting: Setting) -> Iterable[Choice]:
        if not _mixed(setting):
            yield Choice(self.name, Outside.model_validate({"to": _KINDS[_kinds(setting)[0]]}))

    def counted_on(self, cycle: Cycle, counts: Counts, decision: Outside) -> Cycle:
        return with_counts_of_read(cycle, counts)

    def fault(self, choice: Choice, setting: Setting) -> str | None:
        if fault := _mixed(setting):
            return fault
        assert isinstance(choice.decision, Outside)
        kind = _kinds(setting)[0]
        if choice.decision.to == _KINDS[kind]:
            return None
        return "rows on disk are read by CPUs alone" if kind == "cuda" else "a CPU's own memory is its host's"


def _kinds(setting: Setting) -> list[str]:
    """Of the workers' devices."""
    return sorted({setting.placement.profile_of(rank).device_kind for rank in range(setting.num_workers)})


def _mixed(setting: Setting) -> str | None:
    return "rows lie on disk for CPUs, and in the host's memory for GPUs" if len(_kinds(setting)) > 1 else None


def _take(cycle: Cycle, decision: Outside, situation: Situation) -> Cycle:
    return take_what_is_read(cycle, situation.memo.cut("rows read", dict))


def _put_outside(cycle: Cycle, decision: Outside, situation: Situation) -> Cycle:
    tier = _TIERS[decision.to]
    return put_between_halves(put_between_visits(keep_outside(cycle, tier), tier), tier)
