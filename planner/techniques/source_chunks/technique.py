"""Source chunks as a technique."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from contextlib import suppress
from typing import Any

from pydantic import ValidationError

from gnnplan.planner.contracts.candidate import Candidate
from gnnplan.planner.contracts.counts import Counts
from gnnplan.planner.contracts.setting import Setting
from gnnplan.planner.contracts.technique import Choice, Hook, Situation, Stage, Technique
from gnnplan.planner.fidelity import EXACT, Fidelity
from gnnplan.planner.job import Job
from gnnplan.planner.program.cycle import Cycle
from gnnplan.planner.techniques.source_chunks import kinds  # noqa: F401  (register)
from gnnplan.planner.techniques.source_chunks.attention import keep_last
from gnnplan.planner.techniques.source_chunks.counts import with_counts_of_chunks
from gnnplan.planner.techniques.source_chunks.decision import Chunks
from gnnplan.planner.techniques.source_chunks.move import move
from gnnplan.profiles.errors import UserError

_OF_ANY_ORDER = ("gcn", "sage")
COUNTS = (20, 10, 5, 2)
"""Chunks that are taken where a job asks for the technique and says no number: the most that its fidelity allows."""


class SourceChunks(Technique[Chunks]):
    """A step pushes the rows of one chunk of the vertices, and all others' stand in for themselves in moving sums.

    It is asked for, by `pin.techniques` or with a number by `pin.decisions`, and never taken otherwise. Every step is
    shorter with more chunks, and a pass over the graph longer, so that seconds alone cannot choose.
    """

    name = "source_chunks"
    Decision = Chunks
    claims = frozenset({"step rule"})
    pins = frozenset(Chunks.model_fields)
    sums_only = True
    drops_edges = True
    needs = frozenset({"halo rows"})
    costs = "stale(B), and exact where B is 1"

    def fidelity(self, decision: Chunks) -> Fidelity:
        return Fidelity("stale", decision.most_steps) if decision.num_chunks > 1 else EXACT

    def epochs_a_pass(self, decision: Chunks) -> int:
        return decision.num_chunks * decision.num_passes

    def to_pilot(self, job: Job) -> Iterable[Mapping[str, Any]]:
        """Sums come before products where both orders are exact, so that states hold what weights have not met."""
        has_order = job.model.kind in _OF_ANY_ORDER
        plain = {"refresh_interval": 1, **({"op_order": job.pin.op_order or "aggregate_first"} if has_order else {})}
        allowed = (count for count in COUNTS if Fidelity("stale", count) <= job.most)
        return [{**plain, "decisions": {self.name: {"num_chunks": count}}} for count in allowed]

    def hooks(self) -> Mapping[Stage, Hook[Chunks]]:
        return {Stage.FORWARD: _move, Stage.TRAVEL: _keep}

    def counted_on(self, cycle: Cycle, counts: Counts, decision: Chunks) -> Cycle:
        return with_counts_of_chunks(cycle, counts, decision.num_chunks)

    def words(self, decision: Chunks) -> str:
        if decision.num_chunks == 1:
            return "Every step pushes the rows of all vertices."
        return (
            f"Every step pushes the rows of one in {decision.num_chunks} vertices, and moving sums stand for the "
            f"others: an epoch is a step here, and {decision.num_chunks} steps are a pass over the graph."
        )

    def brief(self, decision: Chunks) -> str:
        return f"{decision.num_chunks} source chunks" if decision.num_chunks > 1 else ""

    def options(self, setting: Setting, so_far: Candidate | None) -> Iterable[Choice | None]:
        pin = setting.job.pin
        if not pin.asked.get(self.name):
            return (None,)
        given = {"seed": setting.job.training.seed, **pin.decisions.get(self.name, {})}
        found = (_valid({"num_chunks": count, **given}) for count in (*COUNTS, 1))
        decision = next((each for each in found if each and self.fidelity(each) <= setting.job.most), None)
        if decision is None:
            raise UserError(
                f'{setting.job.name}: pin.decisions.{self.name} allows no number of chunks under fidelity = "'
                f'{setting.job.most}"; write num_chunks, or change its other fields'
            )
        if decision.correction and _attends(setting.forward):
            where = f"pin.decisions.{self.name}.correction"
            raise UserError(f"{setting.job.name}: attention has no correction; leave {where} out")
        return (Choice(self.name, decision),)


def _valid(fields: Mapping[str, Any]) -> Chunks | None:
    """The decision (None: such a cycle would be too long)."""
    with suppress(ValidationError):
        return Chunks.model_validate(fields)
    return None


def _attends(forward: Cycle) -> bool:
    return any(op.kind == "weigh" for op in forward.operators())


def _move(cycle: Cycle, decision: Chunks, situation: Situation) -> Cycle:
    return move(cycle, decision, situation.memo)


def _keep(cycle: Cycle, decision: Chunks, situation: Situation) -> Cycle:
    return keep_last(cycle)
