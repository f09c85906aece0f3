"""Operator order as a technique."""

from __future__ import annotations

from collections.abc import Mapping

from pydantic import Field

from gnnplan.planner.contracts.technique import Hook, Situation, Stage, Technique
from gnnplan.planner.job import OpOrder
from gnnplan.planner.program.cycle import Cycle
from gnnplan.planner.techniques.operator_order.expand import expand_filters
from gnnplan.profiles.contract import Contract


class Orders(Contract):
    """The order of every filter by its key; where nothing is said, rows are multiplied first."""

    of: dict[str, OpOrder] = Field(default_factory=dict)


class OperatorOrder(Technique[Orders]):
    """Each layer aggregates its rows before or after it multiplies them with its weights, whichever is faster."""

    name = "operator_order"
    Decision = Orders
    claims = frozenset({"model:order"})

    def hooks(self) -> Mapping[Stage, Hook[Orders]]:
        return {Stage.FORWARD: _expand}

    def words(self, decision: Orders) -> str:
        first = sorted(key.rpartition("/")[0] for key, order in decision.of.items() if order == "aggregate_first")
        if not first:
            return "All layers multiply rows with their weights before they aggregate them."
        return f"Of all layers {', '.join(first)} aggregate rows before they multiply them with their weights."


def _expand(cycle: Cycle, decision: Orders, situation: Situation) -> Cycle:
    return expand_filters(cycle, decision.of)
