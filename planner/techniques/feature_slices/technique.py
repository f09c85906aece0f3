"""Feature slices as a technique."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from pydantic import PositiveFloat

from gnnplan.planner.contracts.candidate import Candidate
from gnnplan.planner.contracts.counts import Counts
from gnnplan.planner.contracts.setting import Setting
from gnnplan.planner.contracts.shares import better_shares, equal_shares, first_shares
from gnnplan.planner.contracts.technique import LAYOUT, Choice, Hook, Situation, Stage, Technique
from gnnplan.planner.job import Balance, Job
from gnnplan.planner.program.cycle import Cycle
from gnnplan.planner.program.labels import Labels
from gnnplan.planner.techniques.feature_slices.counts import with_counts
from gnnplan.planner.techniques.feature_slices.layout import share_columns
from gnnplan.profiles.contract import Contract


class Slices(Contract):
    """Rows and columns are contiguous, so shares say all.

    Args:
        balance: what the shares follow.
        shares: of the rows and of the columns, by worker (empty: equal ones).
    """

    balance: Balance = "equal"
    shares: tuple[PositiveFloat, ...] = ()


class FeatureSlices(Technique[Slices]):
    """Each worker sums over all edges for its slice of the columns, and owns some vertices' rows for all else."""

    name = "feature_slices"
    Decision = Slices
    claims = frozenset({LAYOUT})
    sums_only = True

    def hooks(self) -> Mapping[Stage, Hook[Slices]]:
        return {Stage.LAYOUT: _share}

    def words(self, decision: Slices) -> str:
        how = "equal slices" if decision.balance == "equal" else "slices by speed"
        how += ", refined" if decision.balance == "refined" else ""
        return f"Every worker has all edges and sums over them for a slice of the columns ({how}); rows are shared out."

    def brief(self, decision: Slices) -> str:
        return f"feature slices, {decision.balance}"

    def options(self, setting: Setting, so_far: Candidate | None) -> Iterator[Choice]:
        if setting.num_workers == 1 or _asks_for_halos(setting.job):
            return
        balance, shares = first_shares(setting)
        yield Choice(self.name, Slices(balance=balance, shares=shares))
        chosen = so_far.choice(self.name) if so_far else None
        if so_far and chosen and isinstance(chosen.decision, Slices):
            for refined in better_shares(so_far, chosen.decision.shares):
                yield Choice(self.name, Slices(balance="refined", shares=refined))

    def counted(self, cycle: Cycle, counts: Counts) -> Cycle:
        return with_counts(cycle, counts)

    def fault(self, choice: Choice, setting: Setting) -> str | None:
        decision, size = choice.decision, setting.num_workers
        assert isinstance(decision, Slices)
        if len(decision.shares) not in (0, size):
            return f"shares has {len(decision.shares)} entries; it must have one for each of {size} workers, or none"
        return None


def _asks_for_halos(job: Job) -> bool:
    """Whether a job pins what only workers have that own vertices with all their columns."""
    pin = job.pin
    is_about_rows = pin.partitioner or pin.dependencies != "hybrid" or pin.partial_reduce
    return bool(is_about_rows or pin.prune == "rapa" or (pin.refresh_interval or 1) > 1)


def _share(cycle: Cycle, decision: Slices, situation: Situation, labels: Labels) -> Cycle:
    return share_columns(cycle, decision.shares or equal_shares(situation.num_workers))
