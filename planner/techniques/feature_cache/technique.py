"""A cache of input features as a technique."""

from __future__ import annotations

from collections.abc import Mapping

from gnnplan.planner.contracts.rows import mark_rows
from gnnplan.planner.contracts.technique import Hook, Situation, Stage, Technique
from gnnplan.planner.program.constant import hoist_constants
from gnnplan.planner.program.cycle import Cycle
from gnnplan.planner.program.labels import Label, Labels, brings
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

    def hooks(self) -> Mapping[Stage, Hook[Cached]]:
        return {Stage.LABELS: _label, Stage.ONCE: _hoist}

    def words(self, decision: Cached) -> str:
        return "Chosen input features of other workers are sent once, before the first epoch, and kept."


def _label(labels: Labels, decision: Cached, situation: Situation) -> Labels:
    return mark_rows(labels, situation.arrays["kept"], Label.KEPT)


def _hoist(cycle: Cycle, decision: Cached, situation: Situation) -> Cycle:
    return hoist_constants(cycle, lambda op: brings(op, Label.KEPT))
