"""Partial reduce as a technique."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace

import numpy as np

from gnnplan.planner.contracts.candidate import Candidate
from gnnplan.planner.contracts.setting import Setting
from gnnplan.planner.contracts.technique import Choice, Hook, Situation, Stage, Technique
from gnnplan.planner.fidelity import EXACT, Fidelity
from gnnplan.planner.models.forward import LABELS
from gnnplan.planner.partial.decision import PartialReduceDecision
from gnnplan.planner.program.cycle import Cycle
from gnnplan.planner.program.difference import difference
from gnnplan.planner.techniques.partial_reduce.contributing import contributing_vertices
from gnnplan.planner.techniques.partial_reduce.decide import PAPER_ALPHA, choose_partial_reduce, most_staleness
from gnnplan.planner.techniques.partial_reduce.waiting import go_on_without
from gnnplan.planner.weather.partial_epochs import aligned_sections


class PartialReduce(Technique[PartialReduceDecision]):
    """Workers go on without those that lag behind: with their last halo rows, and with a step by those that are ready.

    How long they wait changes no epoch in fair weather. So the search takes the most memory that it may need, and
    alpha, K and the least group are decided last, for the weather.
    """

    name = "partial_reduce"
    Decision = PartialReduceDecision
    claims = frozenset({"step rule", "pace", "sums", "transport:format"})  # its messages are of float32 rows
    needs = frozenset({"halo rows"})
    costs = "stale(K + 1)"

    def fidelity(self, decision: PartialReduceDecision) -> Fidelity:
        return Fidelity("stale", decision.max_staleness + 1) if decision.is_stale else EXACT

    def hooks(self) -> Mapping[Stage, Hook[PartialReduceDecision]]:
        return {Stage.TRAVEL: _go_on}

    def words(self, decision: PartialReduceDecision) -> str:
        if not decision.is_stale:
            return "All workers wait for all: max_staleness is 0."
        return (
            f"Peers are waited for until {1 + decision.alpha:g} times the usual, {decision.min_group} workers may "
            f"step, nothing is older than {decision.max_staleness} epochs, and all wait for all in the last "
            f"{decision.closing_epochs}."
        )

    def options(self, setting: Setting, so_far: Candidate | None) -> Iterable[Choice | None]:
        pin = setting.job.pin.partial_reduce
        if pin is None or setting.num_workers == 1:
            return (None,)
        waiting = PartialReduceDecision(
            alpha=PAPER_ALPHA if pin.alpha is None else pin.alpha,
            max_staleness=most_staleness(setting.job),
            closing_epochs=pin.closing_epochs or 1,
            average_epochs=pin.average_epochs,
            absent=pin.absent,
        )
        return (Choice(self.name, waiting),)

    def settled(self, choice: Choice, best: Candidate) -> Choice:
        setting, cycle, counts = best.setting, best.cycle, _contributing(best)
        sections = aligned_sections(best.schedules[cycle.order[0]], best.median_epoch_s)
        decision = choose_partial_reduce(setting.job, sections, best.median_epoch_s, counts, len(cycle.order))
        return replace(choice, decision=decision)

    def fault(self, choice: Choice, setting: Setting) -> str | None:
        decision, size = choice.decision, setting.num_workers
        assert isinstance(decision, PartialReduceDecision)
        if [len(row) for row in decision.contributing] != [size] * setting.job.model.num_layers:
            return f"contributing must have a row a layer, of {size} workers"
        if decision.min_group > size:
            return f"min_group is {decision.min_group}, and there are {size} workers"
        return None

    def fault_in(self, choice: Choice, made: Candidate) -> str | None:
        assert isinstance(choice.decision, PartialReduceDecision)
        return difference(choice.decision.contributing, _contributing(made).tolist(), "contributing")


def _contributing(made: Candidate) -> np.ndarray:
    """int64 [L, W]: vertices of each worker that contribute to each layer's gradient."""
    setting, cycle = made.setting, made.cycle
    assert cycle.arrays is not None
    owned = cycle.arrays.ids[cycle.values[LABELS].space]
    return contributing_vertices(setting.matrix, owned, setting.graph.train_mask, setting.job.model)


def _go_on(cycle: Cycle, decision: PartialReduceDecision, situation: Situation) -> Cycle:
    return go_on_without(cycle, decision)
