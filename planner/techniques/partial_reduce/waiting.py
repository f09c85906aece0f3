"""Operators that do not wait for everybody: what the other players read of them stands in their attributes."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from gnnplan.planner.partial.decision import PartialReduceDecision
from gnnplan.planner.program.cycle import Cycle, Program
from gnnplan.planner.program.labels import KEEPING, brings
from gnnplan.planner.program.parts import Operator

_ROW_VERSIONS = 2  # of rows received one is in use while another arrives; of rows sent one travels while another waits


def go_on_without(cycle: Cycle, decision: PartialReduceDecision) -> Cycle:
    """The cycle whose epochs go on with old halo rows and returned gradients, and step by some of the workers.

    It comes after the derivation, so that rows and gradients are treated alike. Setup and evaluation wait for all.
    """
    rewritten = {name: _rewritten(cycle, cycle.programs[name], decision) for name in dict.fromkeys(cycle.order)}
    return replace(cycle, programs={**cycle.programs, **rewritten})


def _rewritten(cycle: Cycle, program: Program, decision: PartialReduceDecision) -> Program:
    summed = {op.reads[0]: op for op in program if op.kind == "unflatten"}
    return tuple(_marked(cycle, op, summed, decision) for op in program)


def _marked(cycle: Cycle, op: Operator, summed: dict[str, Operator], decision: PartialReduceDecision) -> Operator:
    if _brings_rows(cycle, op):
        # All begin an epoch that refreshes, and nobody sends its rows later.
        is_refresh = len(cycle.order) > 1 and brings(op, KEEPING)
        most = 0 if is_refresh else decision.max_staleness
        return _with(op, late=True, max_staleness=most, copies=_ROW_VERSIONS)
    if op.kind == "all_reduce" and op.writes[0] in summed and decision.is_stale:
        return _with(op, **_of_group(cycle, summed[op.writes[0]].attributes["like"], decision))
    if op.kind == "step" and decision.average_epochs:
        return _with(op, mean=True)
    return op


def _brings_rows(cycle: Cycle, op: Operator) -> bool:
    """Whether an operator exchanges halo rows or their gradients; sparse ones are input features, and stay the same."""
    is_exchange = op.kind == "exchange" and "level" in op.attributes
    return is_exchange and cycle.values[op.reads[0]].layout == "dense"


def _with(op: Operator, **attributes: Any) -> Operator:
    return replace(op, attributes={**op.attributes, **attributes})


def _of_group(cycle: Cycle, parts: tuple[str, ...], decision: PartialReduceDecision) -> dict[str, Any]:
    """What a sum over some of the workers needs to know of its parts: the gradients, and the loss behind them."""
    last = max(map(layer_of, parts))
    return {
        "group": True,
        "absent": decision.absent,
        "sizes": tuple(cycle.num_elements(name, 0) for name in parts),
        "layers": tuple(layer_of(name) if name in cycle.parameters else last for name in parts),
        "contributing": decision.contributing,
        "copies": decision.max_staleness,  # a worker may come back to as many sums, and have as many parts not fetched
    }


def layer_of(name: str) -> int:
    """The layer of a parameter, which its state_dict key numbers; 0 where it numbers none."""
    return next((int(part) for part in name.split(".") if part.isdigit()), 0)
