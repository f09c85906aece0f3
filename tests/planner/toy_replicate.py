"""A stranger's technique: every worker trains on the whole graph, and sums over workers are averages."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from gnnplan.planner.contracts.technique import LAYOUT, Hook, Situation, Stage, Technique
from gnnplan.planner.program.arrays import Arrays
from gnnplan.planner.program.cycle import Cycle
from gnnplan.planner.program.emitter import Emitter
from gnnplan.planner.program.labels import Labels
from gnnplan.profiles.contract import Contract


class Everything(Contract):
    """Nothing is to be decided."""


class Replicate(Technique[Everything]):
    """Every worker trains on the whole graph."""

    name = "replicate"
    Decision = Everything
    claims = frozenset({LAYOUT})

    def hooks(self) -> Mapping[Stage, Hook[Everything]]:
        return {Stage.LAYOUT: _replicate, Stage.TRAVEL: _average}

    def words(self, decision: Everything) -> str:
        return "Every worker trains on the whole graph."


def _replicate(cycle: Cycle, decision: Everything, situation: Situation, labels: Labels) -> Cycle:
    w, arrays = situation.num_workers, cycle.arrays
    assert arrays
    return replace(
        cycle,
        num_workers=w,
        spaces={n: replace(s, sizes=s.sizes * w, num_own=s.num_own * w) for n, s in cycle.spaces.items()},
        values={n: replace(v, num_entries=v.num_entries * w) for n, v in cycle.values.items()},
        blocks={n: replace(b, num_edges=b.num_edges * w) for n, b in cycle.blocks.items()},
        arrays=Arrays(
            {name: each * w for name, each in arrays.ids.items()},
            {name: each * w for name, each in arrays.matrices.items()},
            {name: each * w for name, each in arrays.rows.items()},
            arrays.entries,
        ),
    )


def _average(cycle: Cycle, decision: Everything, situation: Situation) -> Cycle:
    """Every row counts once on every worker."""
    emitter = Emitter(cycle)
    for name, program in cycle.programs.items():
        emitter.begin()
        for op in program:
            if op.kind != "all_reduce":
                emitter.append(op)
                continue
            (total,) = emitter.append(replace(op, writes=(f"{op.key}/sum",)))
            average = {"writes": op.writes, "factor": 1 / situation.num_workers}
            emitter.emit("scale", total, key=f"{op.key}/average", **average)
        emitter.end(name)
    return emitter.cycle
