"""Pruning as a technique."""

from __future__ import annotations

from collections.abc import Mapping

from gnnplan.planner.contracts.fidelity import Fidelity
from gnnplan.planner.contracts.rows import mark_rows, rows_fault
from gnnplan.planner.contracts.setting import Setting
from gnnplan.planner.contracts.technique import Choice, Hook, Situation, Stage, Technique
from gnnplan.planner.program.labels import Label, Labels
from gnnplan.profiles.contract import Contract


class Pruned(Contract):
    """Nothing beside the array `dropped`: int32 [3, n], rows by (level, worker, vertex)."""


class Pruning(Technique[Pruned]):
    """Workers leave out the edges from chosen halo rows, which then need not travel."""

    name = "pruning"
    Decision = Pruned
    arrays = frozenset({"dropped"})
    claims = frozenset({"rows:dropped"})
    needs = frozenset({"halo rows"})
    costs = "approximate"

    def fidelity(self, decision: Pruned) -> Fidelity:
        return Fidelity("approximate")

    def hooks(self) -> Mapping[Stage, Hook[Pruned]]:
        return {Stage.LABELS: _label}

    def words(self, decision: Pruned) -> str:
        return "Edges from chosen halo rows are left out."

    def fault(self, choice: Choice, setting: Setting) -> str | None:
        return rows_fault(choice.arrays["dropped"], setting.num_levels, setting.num_workers, setting.graph.num_nodes)


def _label(labels: Labels, decision: Pruned, situation: Situation) -> Labels:
    return mark_rows(labels, situation.arrays["dropped"], Label.DROPPED)
