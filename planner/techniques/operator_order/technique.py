"""Operator order as a technique."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from pydantic import Field

from gnnplan.planner.contracts.candidate import Candidate
from gnnplan.planner.contracts.setting import Setting
from gnnplan.planner.contracts.technique import Choice, Hook, Situation, Stage, Technique
from gnnplan.planner.job_pins import OpOrder
from gnnplan.planner.program.constant import constant_values
from gnnplan.planner.program.cycle import Cycle
from gnnplan.planner.techniques.operator_order.attention import one_headed
from gnnplan.planner.techniques.operator_order.expand import expand_filters
from gnnplan.profiles.contract import Contract
from gnnplan.profiles.errors import PinnedOutError


class Orders(Contract):
    """The order of filters and attentions of one head by key; where nothing is said, rows are multiplied first."""

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

    def brief(self, decision: Orders) -> str:
        return ", ".join(_SHORT[order] for order in decision.of.values())

    def options(self, setting: Setting, so_far: Candidate | None) -> Iterator[Choice]:
        orders, pin = list(ordered(setting.forward)), setting.job.pin
        constant = [each.key for each in orders if each.is_of_constants and each.is_filter]
        _check_pins(setting, bool(orders), bool(constant))
        first = {each.key: pin.op_order or each.guess for each in orders}
        if pin.precompute:
            first |= dict.fromkeys(constant, "aggregate_first")
        yield Choice(self.name, Orders(of=first))
        if pin.op_order is None and not pin.precompute:
            yield Choice(self.name, Orders(of={each.key: "multiply_first" for each in orders}))
            constant_first = {each.key: "aggregate_first" if each.is_of_constants else each.guess for each in orders}
            if constant_first != first:  # rows of attention that are the same in every epoch may be sent once
                yield Choice(self.name, Orders.model_validate({"of": constant_first}))
        chosen = so_far.choice(self.name) if so_far else None
        if chosen and isinstance(chosen.decision, Orders) and pin.op_order is None:
            for key, order in chosen.decision.of.items():
                if key not in constant or not pin.precompute:
                    yield Choice(self.name, Orders(of={**chosen.decision.of, key: _OTHER[order]}))


_SHORT: Mapping[OpOrder, str] = {"multiply_first": "A(XW)", "aggregate_first": "(AX)W"}
_OTHER: Mapping[OpOrder, OpOrder] = {"multiply_first": "aggregate_first", "aggregate_first": "multiply_first"}


@dataclass(frozen=True)
class Ordered:
    """What of a model has an order.

    Args:
        widths: of its input and its result.
        is_of_constants: its rows are the same in every epoch.
        is_filter: else it is an attention of one head.
    """

    key: str
    widths: tuple[int, int]
    is_of_constants: bool
    is_filter: bool

    @property
    def guess(self) -> OpOrder:
        """The one to begin with: features never change, so a filter may aggregate them once."""
        in_width, out_width = self.widths
        is_once = self.is_of_constants and self.is_filter
        return "aggregate_first" if is_once or in_width < out_width else "multiply_first"


def ordered(forward: Cycle) -> Iterator[Ordered]:
    """All that has an order, of one logical worker's programs."""
    for name in dict.fromkeys(forward.order):
        program = forward.programs[name]
        constant = constant_values(forward, program)
        products = {key: of.product for key, of in one_headed(forward, program).items()}
        filters = {op.key: op for op in program if op.kind == "filter"}
        for key, op in {**filters, **products}.items():
            read, written = op.reads[0], op.writes[0]
            widths = forward.values[read].width, forward.values[written].width
            yield Ordered(key, widths, read in constant, key in filters)


def _check_pins(setting: Setting, has_filters: bool, has_constants: bool) -> None:
    """`PinnedOutError` where the job pins an order that no exact program of its model has."""
    pin, model = setting.job.pin, setting.job.model
    is_impossible = bool(pin.precompute and (not has_constants or pin.op_order == "multiply_first"))
    is_impossible |= not has_filters and bool(pin.precompute or pin.op_order == "aggregate_first")
    if is_impossible:
        raise PinnedOutError(
            f"{setting.job.name}: pin.op_order and pin.precompute ask for what {model.kind} on these features cannot "
            f"do exactly; leave one of them out"
        )


def _expand(cycle: Cycle, decision: Orders, situation: Situation) -> Cycle:
    return expand_filters(cycle, decision.of)
