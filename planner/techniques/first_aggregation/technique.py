"""First aggregation once, as a technique."""

from __future__ import annotations

from collections.abc import Mapping

from gnnplan.planner.contracts.technique import Hook, Situation, Stage, Technique
from gnnplan.planner.program.constant import hoist_constants
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


def _hoist(cycle: Cycle, decision: Once, situation: Situation) -> Cycle:
    return hoist_constants(cycle)
