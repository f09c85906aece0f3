"""Feature slices as a technique."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Annotated

import numpy as np
from pydantic import Field, PositiveFloat

from gnnplan.planner.contracts.candidate import Candidate
from gnnplan.planner.contracts.counts import Counts
from gnnplan.planner.contracts.setting import Setting
from gnnplan.planner.contracts.shares import better_shares, equal_shares, first_shares
from gnnplan.planner.contracts.technique import LAYOUT, Choice, Hook, Situation, Stage, Technique
from gnnplan.planner.job import Job
from gnnplan.planner.job_pins import Balance, Partitioner
from gnnplan.planner.partitioning.partition import Partitioning
from gnnplan.planner.program.cutter import Cutter
from gnnplan.planner.program.cycle import Cycle
from gnnplan.planner.program.labels import Labels
from gnnplan.planner.techniques.feature_slices.counts import with_counts
from gnnplan.planner.techniques.feature_slices.grid import Grid
from gnnplan.planner.techniques.feature_slices.layout import share_columns
from gnnplan.profiles.contract import Contract
from gnnplan.profiles.errors import PinnedOutError

_PARTITIONER: Partitioner = "kaminpar"  # of rows among groups
_ONE_GROUP = np.empty(0, np.int32)


class Slices(Contract):
    """Rows and columns are contiguous, so shares say all. Of several groups the array `group` says whose a vertex is.

    `group` is int32 [N], the group of every vertex; of one group it is empty.

    Args:
        balance: what the shares follow.
        shares: of the rows and of the columns, by worker (empty: equal ones).
        num_groups: G of as many workers each, in order. A group owns rows, and its members share out their columns.
    """

    balance: Balance = "equal"
    shares: tuple[PositiveFloat, ...] = ()
    num_groups: Annotated[int, Field(ge=1, le=1024)] = 1


class FeatureSlices(Technique[Slices]):
    """Each worker sums over all edges for its slice of the columns, and owns some vertices' rows for all else."""

    name = "feature_slices"
    Decision = Slices
    arrays = frozenset({"group"})
    claims = frozenset({LAYOUT})
    pins = frozenset({"num_groups"})
    sums_only = True

    def hooks(self) -> Mapping[Stage, Hook[Slices]]:
        return {Stage.LAYOUT: _share}

    def words(self, decision: Slices) -> str:
        how = "equal slices" if decision.balance == "equal" else "slices by speed"
        how += ", refined" if decision.balance == "refined" else ""
        if decision.num_groups > 1:
            return (
                f"Workers are in {decision.num_groups} groups that own rows. Every worker has its group's edges and "
                f"sums over them for a slice of the columns ({how}); groups receive the rows of their neighbours."
            )
        return f"Every worker has all edges and sums over them for a slice of the columns ({how}); rows are shared out."

    def brief(self, decision: Slices) -> str:
        groups = f" in {decision.num_groups} groups" if decision.num_groups > 1 else ""
        return f"feature slices{groups}, {decision.balance}"

    def options(self, setting: Setting, so_far: Candidate | None) -> Iterator[Choice]:
        if setting.num_workers == 1 or _asks_for_halos(setting.job):
            return
        balance, shares = first_shares(setting)
        chosen = so_far.choice(self.name) if so_far else None
        for num_groups in _numbers_of_groups(setting, others=chosen is not None):
            yield _cut(setting, Slices(balance=balance, shares=shares, num_groups=num_groups))
        if so_far and chosen and isinstance(chosen.decision, Slices):
            for refined in better_shares(so_far, chosen.decision.shares):
                changed = {"balance": "refined", "shares": refined}
                yield _cut(setting, chosen.decision.model_copy(update=changed))

    def counted(self, cycle: Cycle, counts: Counts) -> Cycle | None:
        return with_counts(cycle, counts)

    def fault(self, choice: Choice, setting: Setting) -> str | None:
        decision, size = choice.decision, setting.num_workers
        assert isinstance(decision, Slices)
        if len(decision.shares) not in (0, size):
            return f"shares has {len(decision.shares)} entries; it must have one for each of {size} workers, or none"
        if size % decision.num_groups:
            return f"num_groups is {decision.num_groups}; it must divide {size} workers"
        group, count = choice.arrays["group"], setting.graph.num_nodes if decision.num_groups > 1 else 0
        if group.dtype != np.int32 or group.shape != (count,):
            return f"group must be int32 [{count}], not {group.dtype} {list(group.shape)}"
        if count and (group.min() < 0 or group.max() >= decision.num_groups):
            return f"group must name groups 0 to {decision.num_groups - 1}"
        return None


def _asks_for_halos(job: Job) -> bool:
    """Whether a job pins what only workers have that own vertices with all their columns."""
    pin = job.pin
    is_about_rows = pin.partitioner or pin.dependencies != "hybrid" or pin.partial_reduce
    return bool(is_about_rows or pin.prune == "rapa" or (pin.refresh_interval or 1) > 1)


def _numbers_of_groups(setting: Setting, *, others: bool) -> Iterator[int]:
    """What the job pins; else one, and where `others` are asked for those that leave several workers in a group."""
    size, pinned = setting.num_workers, setting.job.pin.decisions.get(FeatureSlices.name, {})
    if "num_groups" in pinned:
        num_groups = int(str(pinned["num_groups"]))
        if size % num_groups:
            raise PinnedOutError(
                f"{setting.job.name}: pin.decisions.feature_slices.num_groups is {num_groups}, which does not divide "
                f"{size} workers; pin num_workers to a multiple of it"
            )
        yield num_groups
        return
    yield 1
    for num_groups in range(2, size // 2 + 1) if others else ():
        if size % num_groups == 0:
            yield num_groups


def _cut(setting: Setting, decision: Slices) -> Choice:
    """A decision with its groups' vertices; a group's share is that of its workers."""
    graph, size = setting.graph, setting.num_workers
    if decision.num_groups == 1:
        return Choice(FeatureSlices.name, decision, {"group": _ONE_GROUP})
    by_group = np.reshape(decision.shares or equal_shares(size), (decision.num_groups, -1)).sum(1)
    shares = tuple((by_group / by_group.sum()).tolist())

    def cut() -> np.ndarray:
        whole = setting.memo.lasting("partitioning", lambda: Partitioning(graph.num_nodes, graph.edge_index))
        return whole.into(decision.num_groups, _PARTITIONER, shares)

    group = setting.memo.lasting(("groups", decision.num_groups, shares), cut)
    return Choice(FeatureSlices.name, decision, {"group": group})


def _share(cycle: Cycle, decision: Slices, situation: Situation, labels: Labels) -> Cycle:
    shares = decision.shares or equal_shares(situation.num_workers)
    if decision.num_groups == 1:
        return share_columns(cycle, Grid(shares))
    group = situation.arrays["group"]
    # The array stands in the memo too, so that no other one is taken for it.
    key = ("cutter of groups", id(group))
    _, cutter = situation.memo.cut(key, lambda: (group, Cutter(group, decision.num_groups)))
    return share_columns(cycle, Grid(shares, cutter))
