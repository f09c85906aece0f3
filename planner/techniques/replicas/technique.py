"""Replicas as a technique."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from gnnplan.planner.contracts.candidate import Candidate
from gnnplan.planner.contracts.rows import mark_rows, rows_fault
from gnnplan.planner.contracts.setting import Setting
from gnnplan.planner.contracts.technique import Choice, Hook, Situation, Stage, Technique
from gnnplan.planner.program.labels import Label, Labels
from gnnplan.planner.techniques.replicas.proposals import everything, proposals
from gnnplan.profiles.contract import Contract


class Made(Contract):
    """Nothing beside the array `made`: int32 [3, n], rows by (level, worker, vertex)."""


class Replicas(Technique[Made]):
    """Workers make chosen halo rows themselves, from rows further out, instead of receiving them."""

    name = "replicas"
    Decision = Made
    arrays = frozenset({"made"})
    claims = frozenset({"rows:made"})
    changes_edges = True
    needs = frozenset({"halo rows"})

    def hooks(self) -> Mapping[Stage, Hook[Made]]:
        return {Stage.LABELS: _label}

    def words(self, decision: Made) -> str:
        return "Workers make chosen halo rows themselves instead of receiving them."

    def brief(self, decision: Made) -> str:
        return "halo rows made"

    def options(self, setting: Setting, so_far: Candidate | None) -> Iterator[Choice | None]:
        """Nothing, what pays, and everything; where a job pins `cache`, everything as soon as there is a layout.

        Everything too where a job pins replicas, and none pays.
        """
        pinned = setting.job.pin.dependencies
        if so_far is None or setting.num_workers == 1 or pinned == "communicate":
            yield None
            return
        paying = list(proposals(so_far)) if pinned == "hybrid" else []
        if pinned == "hybrid":
            yield None
        is_asked = pinned == "cache" or setting.job.pin.asked.get(self.name)
        for rows in paying if paying or not is_asked else (everything(so_far),):
            yield Choice(self.name, Made(), {"made": setting.memo.one_of(rows)})

    def fault(self, choice: Choice, setting: Setting) -> str | None:
        return rows_fault(choice.arrays["made"], setting.num_levels, setting.num_workers, setting.graph.num_nodes)


def _label(labels: Labels, decision: Made, situation: Situation) -> Labels:
    return mark_rows(labels, situation.arrays["made"], Label.MADE)
