"""The one place where techniques are put in order. It names none of them.

Stages come in the canonical order. Labels combine by the greater one, so the order of hooks that label does not
matter; within any other stage hooks run in the order of the registry.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import replace
from typing import Any, cast

from gnnplan.planner.composition.recent import Recent
from gnnplan.planner.composition.refusals import refusals
from gnnplan.planner.contracts.technique import (
    AnyTechnique,
    Choice,
    CycleHook,
    LabelsHook,
    LayoutHook,
    Situation,
    Stage,
)
from gnnplan.planner.fidelity import ANY
from gnnplan.planner.program.cells import written_over
from gnnplan.planner.program.cycle import Cycle
from gnnplan.planner.program.derive import differentiate
from gnnplan.planner.program.kinds import KINDS
from gnnplan.planner.program.labels import Labels
from gnnplan.planner.program.merge import merge_equal
from gnnplan.planner.program.optimizer import Optimizer
from gnnplan.planner.program.split import split_placed
from gnnplan.planner.program.storage import reuse_storage
from gnnplan.planner.techniques.registry import alone, techniques
from gnnplan.profiles.errors import UserError

_LAID_OUT = frozenset({Stage.FORWARD, Stage.LABELS, Stage.LAYOUT})
_DIFFERENTIATED = _LAID_OUT | {Stage.SPLIT, Stage.ONCE}


def compose(forward: Cycle, choices: Sequence[Choice], situation: Situation, optimizer: Optimizer) -> Cycle:
    """The training of all workers that the chosen techniques make of a forward program.

    Args:
        forward: of one logical worker.
        choices: in any order.
        situation: without arrays; every hook sees those of its own technique.
    """
    refused = refusals(choices, ANY)
    if refused:
        raise UserError("; ".join(refused))
    chosen, recent = _Chosen(choices, situation), situation.memo.cut("recent", Recent)
    of = forward, tuple(choices)

    def laid_out() -> Cycle:
        cycle = _concrete(chosen.rewrite(Stage.FORWARD, forward))
        cycle = chosen.laid_out(cycle, chosen.labels())
        return merge_equal(split_placed(cycle, situation.memo.cut("blocks", dict)))

    def differentiated() -> Cycle:
        cycle = recent.of((id(forward), chosen.key(_LAID_OUT)), laid_out, of)
        for stage in (Stage.SPLIT, Stage.ONCE):
            cycle = chosen.rewrite(stage, cycle)
        return differentiate(cycle, optimizer)

    cycle = recent.of((id(forward), optimizer, chosen.key(_DIFFERENTIATED)), differentiated, of)
    for stage in (Stage.TRAVEL, Stage.STORAGE):
        cycle = chosen.rewrite(stage, cycle)
    assert not (faults := written_over(cycle)), faults[0]
    cycle = reuse_storage(cycle)  # nobody adds a reader any more
    for stage in (Stage.SCHEDULE, Stage.LANES):
        cycle = chosen.rewrite(stage, cycle)
    return cycle


class _Chosen:
    """The hooks of what is chosen, each with what it is called with."""

    def __init__(self, choices: Sequence[Choice], situation: Situation) -> None:
        self._situation, by_name = situation, {choice.technique: choice for choice in choices}
        self._chosen: list[tuple[AnyTechnique, Choice, Situation]] = []
        for name, technique in {**techniques(), **alone()}.items():
            if name in by_name:
                arrays = by_name[name].arrays
                assert arrays.keys() == technique.arrays, f"{name}: arrays are {set(arrays)}, not {technique.arrays}"
                self._chosen.append((technique, by_name[name], replace(situation, arrays=arrays)))

    def _at(self, stage: Stage) -> list[tuple[Any, Any, Situation]]:
        """(hook, decision, situation) of a stage."""
        return [
            (technique.hooks()[stage], choice.decision, situation)
            for technique, choice, situation in self._chosen
            if stage in technique.hooks()
        ]

    def key(self, stages: frozenset[Stage]) -> Hashable:
        """Of the workers, and of what is chosen with hooks at some of these stages."""
        of_choices = (choice.key for technique, choice, _ in self._chosen if technique.hooks().keys() & stages)
        return self._situation.num_workers, self._situation.host_of, tuple(of_choices)

    def rewrite(self, stage: Stage, cycle: Cycle) -> Cycle:
        for hook, decision, situation in self._at(stage):
            cycle = cast(CycleHook[Any], hook)(cycle, decision, situation)
        return cycle

    def labels(self) -> Labels:
        labels = Labels()
        for hook, decision, situation in self._at(Stage.LABELS):
            labels = cast(LabelsHook[Any], hook)(labels, decision, situation)
        return labels

    def laid_out(self, cycle: Cycle, labels: Labels) -> Cycle:
        ((hook, decision, situation),) = self._at(Stage.LAYOUT)
        return cast(LayoutHook[Any], hook)(cycle, decision, situation, labels)


def _concrete(cycle: Cycle) -> Cycle:
    """The cycle, all of whose operators say what they compute."""
    for op in cycle.operators():
        if KINDS[op.kind].is_abstract:
            raise UserError(
                f"{op.key} is a {op.kind}, of which nobody says in which order it is computed; "
                "choose a technique that claims model:order"
            )
    return cycle
