"""Operators that compute what another one before them has are left out.

A model may ask for the same on the edges of several levels, such as attention that all propagations use. Where a layout
gives workers the same rows and edges there, it is the same, and is computed once. Where some level has other rows, as
with replicas, it is not, and stays. What is the same is told by the arrays' contents, not by their names.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from gnnplan.planner.program.cycle import Cycle, Program
from gnnplan.planner.program.kinds import KINDS
from gnnplan.planner.program.parts import Operator

_OF_BLOCKS, _OF_INDEXES = ("block", "blocks"), ("index", "parts")
_WORDS_ALONE = ("level",)
"""Attributes that say what an operator is for, and change nothing that it computes."""


def merge_equal(cycle: Cycle) -> Cycle:
    """The cycle without operators whose kind, reads, attributes and arrays are those of an earlier one.

    What draws, keeps state or is handed out stays.

    Args:
        cycle: with arrays; not differentiated yet.
    """
    same = _Same(cycle)
    return cycle.with_programs(lambda program: _merged(cycle, program, same))


def _merged(cycle: Cycle, program: Program, same: _Same) -> Program:
    names: dict[str, str] = {}
    made: dict[tuple, list[Operator]] = defaultdict(list)
    kept = []
    for op in program:
        if any(name in names for name in op.reads):
            op = replace(op, reads=tuple(names.get(name, name) for name in op.reads))
        others = made[op.kind, op.reads, same.matrices(op)] if _may_be_merged(cycle, op) else []
        before = next((other for other in others if same.operators(other, op)), None)
        if before:
            names.update(zip(op.writes, before.writes, strict=True))
            continue
        others.append(op)
        kept.append(op)
    return tuple(kept)


def _may_be_merged(cycle: Cycle, op: Operator) -> bool:
    values = cycle.values
    is_handed_out = any(name in cycle.results or values[name].role != "temporary" for name in op.writes)
    has_state = any(values[name].role == "cell" for name in op.reads)
    return not (KINDS[op.kind].varies or is_handed_out or has_state)


@dataclass(frozen=True)
class _Same:
    """What is the same in a cycle on every worker, whatever its name."""

    cycle: Cycle

    def matrices(self, op: Operator) -> tuple[int, ...]:
        """Ids of those of its blocks: equal matrices are one object where they were cut."""
        found: list[int] = []
        for name in _OF_BLOCKS:
            named = op.attributes.get(name, ())
            for block in (named,) if isinstance(named, str) else named:
                assert self.cycle.arrays, f"{block}: blocks have matrices"
                found += map(id, self.cycle.arrays.matrices[block])
        return tuple(found)

    def operators(self, a: Operator, b: Operator) -> bool:
        """Of operators of one kind, whose reads and matrices are the same."""
        return all(
            self._attributes(name, a.attributes.get(name), b.attributes.get(name))
            for name in a.attributes.keys() | b.attributes.keys()
            if name not in (*_WORDS_ALONE, *_OF_BLOCKS)
        )

    def _attributes(self, name: str, a: Any, b: Any) -> bool:
        if a == b or a is None or b is None:
            return a == b
        if name in _OF_INDEXES:
            each, other = ((x,) if isinstance(x, str) else x for x in (a, b))
            return len(each) == len(other) and all(map(self._indexes, each, other))
        return name == "route" and np.array_equal(self.cycle.routes[a].counts, self.cycle.routes[b].counts)

    def _indexes(self, a: str, b: str) -> bool:
        assert self.cycle.arrays
        (one, other), rows = (self.cycle.indexes[each] for each in (a, b)), self.cycle.arrays.rows
        return self._sizes([one.source, one.target]) == self._sizes([other.source, other.target]) and all(
            map(np.array_equal, rows[a], rows[b])
        )

    def _sizes(self, spaces: Sequence[str]) -> list[tuple[int, ...]]:
        return [self.cycle.spaces[space].sizes for space in spaces]
