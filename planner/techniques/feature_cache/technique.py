"""A cache of input features as a technique."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from gnnplan.planner.contracts.candidate import Candidate
from gnnplan.planner.contracts.received import kept_rows
from gnnplan.planner.contracts.rows import NO_ROWS, mark_rows, rows_fault
from gnnplan.planner.contracts.setting import Setting
from gnnplan.planner.contracts.technique import Choice, Hook, Situation, Stage, Technique
from gnnplan.planner.program.constant import hoist_constants
from gnnplan.planner.program.cycle import Cycle
from gnnplan.planner.program.labels import KEEPING, Label, Labels, brings
from gnnplan.profiles.contract import Contract


class Cached(Contract):
    """Nothing beside the array `kept`: int32 [3, n], rows by (level, worker, vertex).

    They are meant to be the same in every epoch: features, and what is aggregated of them. Others still travel.
    """


class FeatureCache(Technique[Cached]):
    """Chosen input features of other workers are sent once, before the first epoch, and kept.

    A row that another technique keeps is sent once too where it is the same in every epoch.
    """

    name = "feature_cache"
    Decision = Cached
    arrays = frozenset({"kept"})
    claims = frozenset({"constants"})
    needs = frozenset({"halo rows"})
    offers = frozenset({"kept rows"})

    def hooks(self) -> Mapping[Stage, Hook[Cached]]:
        return {Stage.LABELS: _label, Stage.ONCE: _hoist}

    def words(self, decision: Cached) -> str:
        return "Chosen input features of other workers are sent once, before the first epoch, and kept."

    def brief(self, decision: Cached) -> str:
        return "halo features once"

    def options(self, setting: Setting, so_far: Candidate | None) -> Iterator[Choice | None]:
        yield None
        if so_far and setting.job.pin.feature_cache:
            for kept in kept_rows(so_far, constant=True):
                yield Choice(self.name, Cached(), {"kept": setting.memo.one_of(kept)})
            if setting.placement.sharing_hosts:
                yield Choice(self.name, Cached(), {"kept": NO_ROWS})

    def fault(self, choice: Choice, setting: Setting) -> str | None:
        return rows_fault(choice.arrays["kept"], setting.num_levels, setting.num_workers, setting.graph.num_nodes)


def _label(labels: Labels, decision: Cached, situation: Situation) -> Labels:
    return mark_rows(labels, situation.arrays["kept"], Label.KEPT)


def _hoist(cycle: Cycle, decision: Cached, situation: Situation) -> Cycle:
    return hoist_constants(cycle, lambda op: brings(op, KEEPING))
