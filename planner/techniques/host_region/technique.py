"""Regions of hosts as a technique."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from gnnplan.planner.contracts.candidate import Candidate
from gnnplan.planner.contracts.rows import mark_rows, rows_fault
from gnnplan.planner.contracts.setting import Setting
from gnnplan.planner.contracts.technique import Choice, Hook, Situation, Stage, Technique
from gnnplan.planner.program.cycle import Cycle
from gnnplan.planner.program.labels import Label, Labels
from gnnplan.planner.techniques.host_region.rows import shared_rows
from gnnplan.planner.techniques.host_region.share import share_in_regions
from gnnplan.profiles.contract import Contract


class Shared(Contract):
    """Nothing beside the array `shared`: int32 [3, n], rows by (level, worker, vertex)."""


class HostRegion(Technique[Shared]):
    """Chosen halo rows come to a host once, and lie in a region of its memory for all of its workers."""

    name = "host_region"
    Decision = Shared
    arrays = frozenset({"shared"})
    claims = frozenset({"rows:shared", "pace"})
    needs = frozenset({"halo rows"})
    uses = frozenset({"kept rows"})

    def hooks(self) -> Mapping[Stage, Hook[Shared]]:
        return {Stage.LABELS: _label, Stage.TRAVEL: _share}

    def words(self, decision: Shared) -> str:
        return "Chosen halo rows come to a host once, and all of its workers read them from a region of its memory."

    def brief(self, decision: Shared) -> str:
        return "halo rows in regions of hosts"

    def options(self, setting: Setting, so_far: Candidate | None) -> Iterator[Choice | None]:
        yield None
        if so_far and setting.placement.sharing_hosts and not so_far.choice(self.name):
            for rows in shared_rows(so_far):
                yield Choice(self.name, Shared(), {"shared": rows})

    def fault(self, choice: Choice, setting: Setting) -> str | None:
        return rows_fault(choice.arrays["shared"], setting.num_levels, setting.num_workers, setting.graph.num_nodes)


def _label(labels: Labels, decision: Shared, situation: Situation) -> Labels:
    return mark_rows(labels, situation.arrays["shared"], Label.SHARED)


def _share(cycle: Cycle, decision: Shared, situation: Situation) -> Cycle:
    return share_in_regions(cycle, situation.host_of)
