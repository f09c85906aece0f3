"""The joint cache as a technique."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from gnnplan.planner.contracts.candidate import Candidate
from gnnplan.planner.contracts.received import kept_rows
from gnnplan.planner.contracts.rows import NO_ROWS, mark_rows, rows_fault
from gnnplan.planner.contracts.setting import Setting
from gnnplan.planner.contracts.technique import Choice, Hook, Situation, Stage, Technique
from gnnplan.planner.fidelity import EXACT, Fidelity
from gnnplan.planner.job_pins import RefreshInterval
from gnnplan.planner.program.cycle import Cycle
from gnnplan.planner.program.labels import Label, Labels
from gnnplan.planner.techniques.joint_cache.refresh import refresh_every
from gnnplan.profiles.contract import Contract
from gnnplan.profiles.limits import MAX_ORDER


class Kept(Contract):
    """Beside the array `kept`: int32 [3, n], rows by (level, worker, vertex).

    Args:
        interval: epochs from one refresh of the kept rows to the next.
    """

    interval: RefreshInterval = 1


class JointCache(Technique[Kept]):
    """Chosen halo rows, and the gradients returned for them, travel only every r epochs, and are kept in between."""

    name = "joint_cache"
    Decision = Kept
    arrays = frozenset({"kept"})
    claims = frozenset({"rows:kept"})
    needs = frozenset({"halo rows"})
    offers = frozenset({"kept rows"})
    costs = "stale(r), and exact where r is 1"
    least = Fidelity("stale", 2)

    def fidelity(self, decision: Kept) -> Fidelity:
        return Fidelity("stale", decision.interval) if decision.interval > 1 else EXACT

    def hooks(self) -> Mapping[Stage, Hook[Kept]]:
        return {Stage.LABELS: _label, Stage.TRAVEL: _refresh}

    def words(self, decision: Kept) -> str:
        if decision.interval == 1:
            return "Chosen halo rows are kept, and refreshed in every epoch."
        return f"Chosen halo rows are kept, and refreshed every {decision.interval} epochs."

    def brief(self, decision: Kept) -> str:
        return f"halo rows every {decision.interval} epochs"

    def options(self, setting: Setting, so_far: Candidate | None) -> Iterator[Choice | None]:
        yield None
        if so_far is None:
            return
        pinned, most = setting.job.pin.refresh_interval, setting.refresh_interval
        interval = pinned or most // so_far.epochs_a_pass  # rows are kept for passes, and their age counts epochs
        own = next((each.decision for each in so_far.choices if isinstance(each.decision, Kept)), Kept())
        if 1 < interval <= MAX_ORDER * own.interval // len(so_far.cycle.order):
            for kept in kept_rows(so_far, constant=False):
                yield Choice(self.name, Kept(interval=interval), {"kept": setting.memo.one_of(kept)})
            if setting.placement.sharing_hosts:
                yield Choice(self.name, Kept(interval=interval), {"kept": NO_ROWS})

    def fault(self, choice: Choice, setting: Setting) -> str | None:
        return rows_fault(choice.arrays["kept"], setting.num_levels, setting.num_workers, setting.graph.num_nodes)


def _label(labels: Labels, decision: Kept, situation: Situation) -> Labels:
    return mark_rows(labels, situation.arrays["kept"], Label.KEPT)


def _refresh(cycle: Cycle, decision: Kept, situation: Situation) -> Cycle:
    return refresh_every(cycle, decision.interval)
