"""Attention over a chunk: what is left of a target's state is one more edge of its softmax.

A softmax is a sum of masses exp(score). The state of a target is its mean row, and the logarithm of the mass behind it
(Emma, equations 8 and 9). In a step the mass that is left counts as an edge from the state itself, with the score
log(beta) + log(mass). So the softmax subtracts the greatest of all scores before it takes exponentials, and neither
overflows nor clamps: a state may fall as well as rise. Where masses fade, the sum of both is scaled to what the mass of
all edges is. The self loop is put to the new state last, by a second softmax over these two alone, and never enters it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from gnnplan.planner.program.cycle import Cycle, Program
from gnnplan.planner.program.emitter import Emitter
from gnnplan.planner.program.parts import Operator, Value
from gnnplan.planner.techniques.source_chunks.divided import Divided


class Attention:
    """Takes the operators of attention out of a program, and writes those of moving attention where rows are summed.

    Args:
        mean: emits the mean row of all vertices' rows.
    """

    def __init__(self, emitter: Emitter, divided: Divided, number: int, mean: Callable[[str], str]) -> None:
        self._emitter, self._divided, self._number, self._mean = emitter, divided, number, mean
        self._ends: dict[str, tuple[str, str]] = {}  # of a score or a coefficient, what it is made of

    def takes(self, op: Operator, renamed: Operator) -> bool:
        """Whether an operator is one of attention, whose part is written here.

        Args:
            op: as it stood.
            renamed: the same with the names of this step.
        """
        if op.kind == "score":
            self._ends[renamed.writes[0]] = (renamed.reads[0], renamed.reads[1])
        elif op.kind == "softmax":
            self._ends[renamed.writes[0]] = self._ends[renamed.reads[0]]
        elif op.kind == "weigh":
            assert not op.has_base, f"{op.key}: attention is added to nothing"
            self._weigh(op, renamed)
        return op.kind in ("score", "softmax", "weigh")

    def _weigh(self, op: Operator, renamed: Operator) -> None:
        emit, block, heads = self._emitter.emit, op.attributes["block"], op.attributes["heads"]
        key, x, ends = renamed.key, renamed.reads[1], self._ends[renamed.reads[0]]
        mean_row = self._mean(x) if self._divided.decision.follow_mean else ""
        pushed, left = self._divided.entries(block, self._number), self._divided.mass(block, self._number)
        row, width = self._emitter.cycle.blocks[block].row, self._emitter.cycle.values[x].width
        mass = self._emitter.add_value(Value(f"mass:{op.key}", row, heads, role="cell"))
        mean = self._emitter.add_value(Value(f"moving:{op.key}", row, width, role="cell"))
        on = {"heads": heads}
        old = emit("mass_left", mass, key=f"{key}/mass_left", block=left, **on)
        score = emit("score", *ends, key=f"{key}/score", block=pushed, **on)
        among = {"blocks": (pushed, left), **on}
        of_chunk, of_state = self._emitter.emit_all("softmax", score, old, key=f"{key}/softmax", **among)
        total = emit("log_sum", score, old, key=f"{key}/log_sum", onto=left, **among)
        if scale := self._divided.mass_scale(block, self._number):
            total = emit("scale_mass", total, key=f"{key}/scale_mass", blocks=(left, scale), **on)
        followed = self._followed(op, mean_row, mean, key) if mean_row else mean
        kept = emit("weigh", of_state, followed, key=f"{key}/state", block=left, **on)
        loops = self._divided.loops(block)
        name, last = (f"{key}/pushed", {}) if loops else (key, {"writes": renamed.writes})
        moved = emit("weigh", of_chunk, x, kept, key=name, block=pushed, base=True, **on, **last)
        emit("keep", total, mass, key=f"{key}/keep_mass", writes=(mass,), block=left)
        emit("keep", moved, mean, key=f"{key}/keep", writes=(mean,))
        if loops:
            self._with_loops(renamed, total, moved, left, loops)

    def _followed(self, op: Operator, mean: str, state: str, key: str) -> str:
        """The state's mean row, moved as the mean of all rows has moved."""
        last = self._emitter.add_value(replace(self._emitter.cycle.values[mean], name=f"mean:{op.key}", role="cell"))
        writes, fed = (f"{key}/followed", last), self._divided.fed(op.attributes["block"])
        return self._emitter.emit_all("follow", state, mean, last, key=f"{key}/follow", writes=writes, block=fed)[0]

    def _with_loops(self, renamed: Operator, total: str, moved: str, left: str, loops: str) -> None:
        """The self loop beside the new state."""
        emit, key, on = self._emitter.emit, renamed.key, {"heads": renamed.attributes["heads"]}
        score = emit("score", *self._ends[renamed.reads[0]], key=f"{key}/loops_score", block=loops, **on)
        among = {"blocks": (loops, left), **on}
        of_loop, of_state = self._emitter.emit_all("softmax", score, total, key=f"{key}/loops_softmax", **among)
        state = emit("weigh", of_state, moved, key=f"{key}/moved", block=left, **on)
        attributes = {"block": loops, "base": True, **on}
        emit("weigh", of_loop, renamed.reads[1], state, key=key, writes=renamed.writes, **attributes)


def keep_last(cycle: Cycle) -> Cycle:
    """The cycle that keeps new states where nobody needs the old ones any more: the backward half reads them too."""
    return cycle.with_programs(_kept_last)


def _kept_last(program: Program) -> Program:
    last = {name: number for number, op in enumerate(program) if op.kind != "keep" for name in op.reads}

    def place(number: int) -> tuple[int, bool]:
        op = program[number]
        return (max(number, last.get(op.writes[0], number)), True) if op.kind == "keep" else (number, False)

    return tuple(program[number] for number in sorted(range(len(program)), key=place))
