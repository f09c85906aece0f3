"""Halo exchange as a technique."""

from __future__ import annotations

from collections.abc import Mapping

from gnnplan.planner.contracts.technique import LAYOUT, Hook, Situation, Stage, Technique
from gnnplan.planner.program.cycle import Cycle
from gnnplan.planner.program.labels import Labels
from gnnplan.planner.techniques.halo_exchange.layout import share_rows
from gnnplan.profiles.contract import Contract


class Sharing(Contract):
    """Nothing beside the array `part`: int32 [N], the owner of every vertex."""


class HaloExchange(Technique[Sharing]):
    """Each worker owns some vertices' rows and receives in every epoch those of their neighbours that others own."""

    name = "halo_exchange"
    Decision = Sharing
    arrays = frozenset({"part"})
    claims = frozenset({LAYOUT})
    offers = frozenset({"halo rows"})

    def hooks(self) -> Mapping[Stage, Hook[Sharing]]:
        return {Stage.LAYOUT: _share}

    def words(self, decision: Sharing) -> str:
        return "Every worker owns the rows of its vertices and receives the rows of their neighbours."


def _share(cycle: Cycle, decision: Sharing, situation: Situation, labels: Labels) -> Cycle:
    return share_rows(cycle, situation.arrays["part"], situation.num_workers, labels)
