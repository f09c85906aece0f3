"""First aggregation once, as a technique."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from gnnplan.planner.contracts.candidate import Candidate
from gnnplan.planner.contracts.setting import Setting
from gnnplan.planner.contracts.technique import Choice, Hook, Situation, Stage, Technique
from gnnplan.planner.program.constant import aggregates_constants, hoist_constants
from gnnplan.planner.program.cycle import Cycle
from gnnplan.profiles.contract import Contract


class Once(Contract):
    """Nothing is to be decided: it is done or not."""


class FirstAggregation(Technique[Once]):
    """Before the first epoch a training makes what is the same in every epoch, such as the features' aggregation."""

    name = "first_aggregation"
    Decision = Once
    claims = frozenset({"constants"})

    def hooks(self) -> Mapping[Stage, Hook[Once]]:
        return {Stage.ONCE: _hoist}

    def words(self, decision: Once) -> str:
        return "The first layer aggregates the input features once, before the first epoch."

    def brief(self, decision: Once) -> str:
        return "AX once"

    def options(self, setting: Setting, so_far: Candidate | None) -> Iterable[Choice | None]:
        pinned, once = setting.job.pin.precompute, Choice(self.name, Once())
        if pinned is False or not _has_some(setting):
            return (None,)
        return (once,) if pinned else (once, None)


def _has_some(setting: Setting) -> bool:
    model = setting.job.model
    is_asked = model.kind == "module" or model.is_decoupled
    return aggregates_constants(setting.forward) if is_asked else not model.input_dropout


def _hoist(cycle: Cycle, decision: Once, situation: Situation) -> Cycle:
    return hoist_constants(cycle)
