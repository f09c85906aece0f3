"""Operator order as a technique."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from pydantic import Field

from gnnplan.planner.contracts.candidate import Candidate
from gnnplan.planner.contracts.setting import Setting
from gnnplan.planner.contracts.technique import Choice, Hook, Situation, Stage, Technique
from gnnplan.planner.job_pins import OpOrder
from gnnplan.planner.program.constant import constant_values
from gnnplan.planner.program.cycle import Cycle
from gnnplan.planner.techniques.operator_order.expand import expand_filters
from gnnplan.profiles.contract import Contract
from gnnplan.profiles.errors import UserError


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

    def brief(self, decision: Orders) -> str:
        return ", ".join(_SHORT[order] for order in decision.of.values())

    def options(self, setting: Setting, so_far: Candidate | None) -> Iterator[Choice]:
        widths, pin = _widths(setting.forward), setting.job.pin
        constant = _of_constants(setting.forward)
        _check_pins(setting, bool(widths), bool(constant))
        first = {key: _narrower(*each) for key, each in widths.items()}
        first |= dict.fromkeys(constant, "aggregate_first")  # of features that never change, so once may be enough
        if pin.op_order:
            first = dict.fromkeys(widths, pin.op_order)
        if pin.precompute:
            first |= dict.fromkeys(constant, "aggregate_first")
        yield Choice(self.name, Orders(of=first))
        if pin.op_order is None and not pin.precompute:
            yield Choice(self.name, Orders(of=dict.fromkeys(widths, "multiply_first")))
        chosen = so_far.choice(self.name) if so_far else None
        if chosen and isinstance(chosen.decision, Orders) and pin.op_order is None:
            for key, order in chosen.decision.of.items():
                if key not in constant or not pin.precompute:
                    yield Choice(self.name, Orders(of={**chosen.decision.of, key: _OTHER[order]}))


_SHORT: Mapping[OpOrder, str] = {"multiply_first": "A(XW)", "aggregate_first": "(AX)W"}
_OTHER: Mapping[OpOrder, OpOrder] = {"multiply_first": "aggregate_first", "aggregate_first": "multiply_first"}


def _widths(forward: Cycle) -> dict[str, tuple[int, int]]:
    """By the key of every filter the widths of its input and its result."""
    values, filters = forward.values, (op for op in forward.operators_of_epochs() if op.kind == "filter")
    return {op.key: (values[op.reads[0]].width, values[op.writes[0]].width) for op in filters}


def _narrower(in_width: int, out_width: int) -> OpOrder:
    return "aggregate_first" if in_width < out_width else "multiply_first"


def _of_constants(forward: Cycle) -> list[str]:
    """Keys of filters whose rows are the same in every epoch."""
    found: dict[str, None] = {}
    for name in forward.order:
        program = forward.programs[name]
        constant = constant_values(forward, program)
        found |= {op.key: None for op in program if op.kind == "filter" and op.reads[0] in constant}
    return list(found)


def _check_pins(setting: Setting, has_filters: bool, has_constants: bool) -> None:
    """`UserError` where the job pins an order that no exact program of its model has."""
    pin, model = setting.job.pin, setting.job.model
    is_impossible = bool(pin.precompute and (not has_constants or pin.op_order == "multiply_first"))
    is_impossible |= not has_filters and bool(pin.precompute or pin.op_order == "aggregate_first")
    if is_impossible:
        raise UserError(
            f"{setting.job.name}: pin.op_order and pin.precompute ask for what {model.kind} on these features cannot "
            f"do exactly; leave one of them out"
        )


def _expand(cycle: Cycle, decision: Orders, situation: Situation) -> Cycle:
    return expand_filters(cycle, decision.of)
