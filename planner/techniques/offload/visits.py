"""What is on the edges of a chunk lies outside while other chunks are worked on.

A *visit* is a run of operators on the edges into one range of targets. Attention that is used hop after hop would
otherwise lie on the device, all of it, from the first hop until the last gradient.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from dataclasses import replace

from gnnplan.planner.program.aliases import views
from gnnplan.planner.program.cycle import Cycle, Program
from gnnplan.planner.program.emitter import Emitter
from gnnplan.planner.program.parts import Operator, Tier
from gnnplan.planner.techniques.offload.between import may_be_put_aside, put_aside, take_back

_OUT, _BACK = "/aside", "/from aside"


def put_between_visits(cycle: Cycle, tier: Tier) -> Cycle:
    """The cycle whose programs put aside what a visit makes on edges, and take it for each later visit.

    Args:
        tier: where it is put.
    """
    emitter = Emitter(cycle)
    targets_of = {block.edges: block.row for block in cycle.blocks.values()}
    for name, program in cycle.programs.items():
        emitter.begin()
        _write(emitter, program, _visits(cycle, program, targets_of), targets_of, tier)
        emitter.end(name)
    return emitter.cycle


def _write(emitter: Emitter, program: Program, visits: list[int], targets_of: dict[str, str], tier: Tier) -> None:
    again = _used_again(emitter.cycle, program, visits, targets_of)
    outside, made_in, here = dict[str, str](), dict[str, int](), dict[tuple[str, int], str]()
    for op, visit in zip(program, visits, strict=True):
        for name in (name for name in op.reads if name in again and visit != made_in[name]):
            if (name, visit) not in here:
                here[name, visit] = take_back(emitter, name, outside[name], name + _BACK)
        emitter.append(replace(op, reads=tuple(here.get((name, visit), name) for name in op.reads)))
        for name in (name for name in op.writes if name in again):
            outside[name], made_in[name] = put_aside(emitter, name, name + _OUT, tier), visit


def _visits(cycle: Cycle, program: Program, targets_of: dict[str, str]) -> list[int]:
    """By operator, the number of the visit that it is in."""
    number, last, found = 0, set[str](), []
    for op in program:
        targets = set(_targets(cycle, op, targets_of))
        if targets and targets != last:
            number, last = number + 1, targets
        found.append(number)
    return found


def _targets(cycle: Cycle, op: Operator, targets_of: dict[str, str]) -> Iterator[str]:
    """Spaces of the targets whose edges an operator works on."""
    for key in ("block", "onto"):
        if key in op.attributes:
            yield cycle.blocks[op.attributes[key]].row
    yield from (cycle.blocks[name].row for name in op.attributes.get("blocks", ()))
    spaces = (cycle.values[name].space for name in (*op.reads, *op.writes))
    yield from (targets_of[space] for space in spaces if space in targets_of)


def _used_again(cycle: Cycle, program: Program, visits: list[int], targets_of: dict[str, str]) -> set[str]:
    """What is on edges, has rows of its own in memory, and is read in another visit than the one that makes it."""
    used: dict[str, set[int]] = defaultdict(set)
    made = set[str]()
    for op, visit in zip(program, visits, strict=True):
        for name in (*op.reads, *op.writes):
            used[name].add(visit)
        if not views(cycle, op):
            made.update(op.writes)
    again = (name for name in made - cycle.results if len(used[name]) > 1)
    return {name for name in again if cycle.values[name].space in targets_of and may_be_put_aside(cycle.values[name])}
