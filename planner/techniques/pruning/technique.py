"""Pruning as a technique."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import numpy as np
from pydantic import NonNegativeFloat, NonNegativeInt

from gnnplan.planner.contracts.candidate import Candidate
from gnnplan.planner.contracts.rows import mark_rows, rows_fault
from gnnplan.planner.contracts.setting import Setting
from gnnplan.planner.contracts.technique import Choice, Hook, Situation, Stage, Technique
from gnnplan.planner.fidelity import Fidelity
from gnnplan.planner.program.cycle import Cycle
from gnnplan.planner.program.labels import Label, Labels
from gnnplan.planner.techniques.pruning.prune import Pruning as Found
from gnnplan.planner.techniques.pruning.prune import prune_halos
from gnnplan.profiles.contract import Contract


class Pruned(Contract):
    """Beside the array `dropped`: int32 [3, n], rows by (level, worker, vertex).

    Args:
        num_vertices: halo vertices pruned, over all workers.
        vertex_share: of all halo vertices.
        num_edges: entries of the aggregation matrix that gather them.
        edge_share: of all its entries.
        influence_share: of the halos' influence (CaPGNN, equation 16).
        uneven_before, uneven_after: seconds of the busiest worker over the mean, 1 or more.
    """

    num_vertices: NonNegativeInt = 0
    vertex_share: NonNegativeFloat = 0.0
    num_edges: NonNegativeInt = 0
    edge_share: NonNegativeFloat = 0.0
    influence_share: NonNegativeFloat = 0.0
    uneven_before: NonNegativeFloat = 1.0
    uneven_after: NonNegativeFloat = 1.0


class Pruning(Technique[Pruned]):
    """Workers leave out the edges from chosen halo rows, which then need not travel."""

    name = "pruning"
    Decision = Pruned
    arrays = frozenset({"dropped"})
    claims = frozenset({"rows:dropped"})
    changes_edges = drops_edges = True
    needs = frozenset({"halo rows"})
    costs = "approximate"
    least = Fidelity("approximate")

    def fidelity(self, decision: Pruned) -> Fidelity:
        return Fidelity("approximate")

    def hooks(self) -> Mapping[Stage, Hook[Pruned]]:
        return {Stage.LABELS: _label}

    def words(self, decision: Pruned) -> str:
        of = decision
        return (
            f"Workers leave out the edges from {of.num_vertices:,} halo vertices, {of.vertex_share:.1%} of them with "
            f"{of.influence_share:.1%} of their influence: {of.edge_share:.2%} of the aggregation's edges. The busiest "
            f"worker takes {of.uneven_after:.2f} times the mean, before {of.uneven_before:.2f}; accuracy was not tried."
        )

    def brief(self, decision: Pruned) -> str:
        return f"{decision.vertex_share:.0%} of halo vertices pruned"

    def options(self, setting: Setting, so_far: Candidate | None) -> Iterator[Choice | None]:
        yield None
        if so_far and setting.may_prune and setting.num_workers > 1 and not so_far.choice(self.name):
            # Choices stand in the memo too, so that no other arrays are taken for theirs.
            _, proposed = setting.memo.lasting(_key(so_far), lambda: (so_far.choices, _proposed(so_far)))
            if proposed:
                yield proposed

    def fault(self, choice: Choice, setting: Setting) -> str | None:
        rows, pruned = choice.arrays["dropped"], choice.decision
        fault = rows_fault(rows, setting.num_levels, setting.num_workers, setting.graph.num_nodes)
        if fault is None and isinstance(pruned, Pruned):
            num_vertices = np.unique(rows[1:], axis=1).shape[1]
            if pruned.num_vertices != num_vertices:
                return f"has {num_vertices} halo vertices where its decision says {pruned.num_vertices}"
        return fault


def _label(labels: Labels, decision: Pruned, situation: Situation) -> Labels:
    return mark_rows(labels, situation.arrays["dropped"], Label.DROPPED)


def _key(candidate: Candidate) -> tuple:
    """Equal for candidates that are the same, so that what is pruned of them is the same array."""
    workers = tuple(worker.model_dump_json() for worker in candidate.setting.placement.workers)
    return "pruning", workers, frozenset(choice.key for choice in candidate.choices)


def _proposed(candidate: Candidate) -> Choice | None:
    """What RAPA prunes of a candidate (None: nothing)."""
    arrays, blocks = candidate.cycle.arrays, candidate.cycle.blocks
    if arrays and any(blocks[name].column not in arrays.ids for name in arrays.matrices):
        return None  # some rows are gathered from where nobody says whose they are
    found = prune_halos(candidate)
    return None if found.kept.all() else choice_of(candidate, found)


def choice_of(candidate: Candidate, found: Found) -> Choice:
    """A pruning of a candidate as a choice."""
    gone, levels = ~found.kept, np.array(_levels(candidate.cycle), np.int32)
    vertices = np.stack([found.pairs.worker[gone], found.pairs.vertex[gone]]).astype(np.int32)
    of_each = np.repeat(levels, vertices.shape[1])
    return Choice("pruning", _decision(found), {"dropped": np.vstack([of_each, np.tile(vertices, len(levels))])})


def _decision(found: Found) -> Pruned:
    return Pruned(
        num_vertices=int((~found.kept).sum()),
        vertex_share=found.vertex_share,
        num_edges=found.num_edges,
        edge_share=found.edge_share,
        influence_share=found.influence_share,
        uneven_before=float(found.before_s.max() / found.before_s.mean()),
        uneven_after=float(found.after_s.max() / found.after_s.mean()),
    )


def _levels(cycle: Cycle) -> list[int]:
    """Levels whose rows epochs sum over edges; of what was summed before training nothing need be left out."""
    named = ((op.attributes.get("block"), *op.attributes.get("blocks", ())) for op in cycle.operators_of_epochs())
    blocks = {name for names in named for name in names if name}
    levels = {cycle.spaces[cycle.blocks[name].row].level for name in blocks}
    return sorted(level - 1 for level in levels if level is not None)
