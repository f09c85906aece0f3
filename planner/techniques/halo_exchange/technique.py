"""Halo exchange as a technique."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import numpy as np
from pydantic import PositiveFloat

from gnnplan.planner.contracts.candidate import Candidate
from gnnplan.planner.contracts.counts import Counts
from gnnplan.planner.contracts.setting import Setting
from gnnplan.planner.contracts.shares import better_shares, first_shares
from gnnplan.planner.contracts.technique import LAYOUT, Choice, Hook, Situation, Stage, Technique
from gnnplan.planner.job_pins import Balance, Partitioner
from gnnplan.planner.partitioning.partition import Partitioning
from gnnplan.planner.program.cutter import Cutter
from gnnplan.planner.program.cycle import Cycle
from gnnplan.planner.program.labels import Labels
from gnnplan.planner.techniques.halo_exchange.counts import with_counts
from gnnplan.planner.techniques.halo_exchange.layout import share_rows
from gnnplan.profiles.contract import Contract

_MOST_EDGES = 4_000_000  # for METIS: beyond it takes longer than all the rest of a search


class Sharing(Contract):
    """Beside the array `part`: int32 [N], the owner of every vertex.

    Args:
        partitioner: that made it.
        balance: what the shares follow.
        shares: of the graph, that every worker was to get (empty: equal ones).
    """

    partitioner: Partitioner = "kaminpar"
    balance: Balance = "equal"
    shares: tuple[PositiveFloat, ...] = ()


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
        how = "equal shares" if decision.balance == "equal" else "shares by speed"
        how += ", refined until all are busy alike" if decision.balance == "refined" else ""
        return (
            f"Every worker owns the rows of its vertices and receives those of their neighbours "
            f"({decision.partitioner} partition, {how})."
        )

    def brief(self, decision: Sharing) -> str:
        shares = "shares by speed" if decision.balance == "speed" else f"{decision.balance} shares"
        return f"{decision.partitioner}, {shares}" if len(decision.shares) > 1 else ""

    def options(self, setting: Setting, so_far: Candidate | None) -> Iterator[Choice]:
        methods = _methods(setting, so_far)
        balance, shares = first_shares(setting)
        for method in methods:
            yield _cut(setting, Sharing(partitioner=method, balance=balance, shares=shares))
        chosen = so_far.choice(self.name) if so_far else None
        if so_far and chosen and isinstance(chosen.decision, Sharing):
            for refined in better_shares(so_far, chosen.decision.shares):
                changed = {"balance": "refined", "shares": refined}
                yield _cut(setting, chosen.decision.model_copy(update=changed))

    def counted(self, cycle: Cycle, counts: Counts) -> Cycle:
        return with_counts(cycle, counts)

    def fault(self, choice: Choice, setting: Setting) -> str | None:
        part = choice.arrays["part"]
        if part.dtype != np.int32 or part.shape != (setting.graph.num_nodes,):
            return f"part must be int32 [{setting.graph.num_nodes}], not {part.dtype} {list(part.shape)}"
        if part.min() < 0 or part.max() >= setting.num_workers:
            return f"part must name workers 0 to {setting.num_workers - 1}"
        return None


def _methods(setting: Setting, so_far: Candidate | None) -> Sequence[Partitioner]:
    """The slower METIS only where other choices are made: its parts have fewer halo rows on some graphs."""
    if setting.job.pin.partitioner:
        return (setting.job.pin.partitioner,)
    if setting.num_workers == 1:
        return ("ranges",)
    methods: tuple[Partitioner, ...] = ("kaminpar", "ranges")
    return (*methods, "metis") if so_far and setting.graph.num_edges <= _MOST_EDGES else methods


def _cut(setting: Setting, decision: Sharing) -> Choice:
    graph, key = setting.graph, ("part", decision.partitioner, decision.shares)

    def cut() -> np.ndarray:
        whole = setting.memo.lasting("partitioning", lambda: Partitioning(graph.num_nodes, graph.edge_index))
        return whole.into(setting.num_workers, decision.partitioner, decision.shares)

    return Choice("halo_exchange", decision, {"part": setting.memo.lasting(key, cut)})


def _share(cycle: Cycle, decision: Sharing, situation: Situation, labels: Labels) -> Cycle:
    part = situation.arrays["part"]
    # The array stands in the memo too, so that no other one is taken for it.
    _, cutter = situation.memo.cut(("cutter", id(part)), lambda: (part, Cutter(part, situation.num_workers)))
    return share_rows(cycle, cutter.under(labels))
