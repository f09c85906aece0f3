"""A forward program whose sums over edges are made one range of their rows after another.

What follows a sum row by row follows its chunk: a product, an activation, a transpose. So does what is made of inputs
row by row. A value is put together only where somebody needs all of its rows, as the next sum does. So what is alive
at once between two of these is a chunk's, and the derivative of all that, which is derived later, goes from chunk to
chunk as well.

Where chunks are transposed, a chunk's operators wait for its rows. Stages of several chunks take turns, so that one
chunk is summed while another travels (NeutronTP, figure 9d). Every row is sent once, in its own chunk.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from gnnplan.planner.program.cycle import Cycle, Program
from gnnplan.planner.program.dead import without_dead
from gnnplan.planner.program.emitter import Emitter
from gnnplan.planner.program.kinds import KINDS
from gnnplan.planner.program.kinds.kind import Need
from gnnplan.planner.program.parts import Operator
from gnnplan.planner.techniques.destination_chunks.ranges import Cuts, Ranges

_OVER_EDGES = frozenset({"aggregate", "score", "softmax", "weigh"})
_MOVING = frozenset({"pack_columns", "unpack_columns", "transpose"})


def in_chunks(cycle: Cycle, num_chunks: int, cuts: Cuts | None = None) -> Cycle:
    """The cycle with its sums over edges in so many chunks.

    Args:
        cycle: forward programs of all workers, with arrays.
        cuts: made before, to which those are added that are made here (None: none).
    """
    if num_chunks == 1:
        return cycle
    emitter = Emitter(cycle)
    ranges = Ranges(emitter, num_chunks, {} if cuts is None else cuts)
    for name, program in cycle.programs.items():
        emitter.begin()
        program = _edges_late(cycle, program)
        _Chunks(ranges, program).run(program)
        emitter.end(name)
    return without_dead(emitter.cycle)


def _edges_late(cycle: Cycle, program: Program) -> Program:
    """The program with what edges carry made right before it is read.

    A layout makes it early, while rows travel. Then the values of all chunks would wait for these at once.
    """
    late: list[Operator] = []
    found: list[Operator] = []
    for op in program:
        if _is_of_edges(cycle, op):
            late.append(op)
            continue
        read = [number for number, each in enumerate(late) if set(op.reads).intersection(each.writes)]
        if read:  # what these are made of waits before them
            found += late[: read[-1] + 1]
            late = late[read[-1] + 1 :]
        found.append(op)
    return (*found, *late)


def _is_of_edges(cycle: Cycle, op: Operator) -> bool:
    """Whether an operator makes what edges carry, of what nobody writes again."""
    reads = (cycle.values[name] for name in op.reads)
    return all(cycle.values[name].space.startswith("edges:") for name in op.writes) and all(
        value.role != "cell" for value in reads
    )


class _Chunks:
    """Writes one program anew.

    `_made` are the values that are made in chunks, `_whole` those of them that somebody needs all rows of, and `_uncut`
    those that must not be made in chunks. Operators in chunks wait in `_pending` until then, and are
    written chunk by chunk.
    """

    def __init__(self, ranges: Ranges, program: Program) -> None:
        self._ranges, self._emitter, self._cycle = ranges, ranges.emitter, ranges.emitter.cycle
        self._made: set[str] = set()
        self._whole: set[str] = set()
        self._uncut: set[str] = set()
        self._pending: list[Operator] = []
        self._of_pending: set[str] = set()
        self._look(program)

    def run(self, program: Program) -> None:
        """Emits the operators."""
        for op in program:
            if self._of_pending.intersection(self._all_rows_of(op)):
                waiting = self._take_back_of_edges()
                self._flush()
                for each in waiting:
                    self._wait(each)
            if op.writes[0] in self._made:
                self._wait(op)
            else:
                self._emitter.append(op)
        self._flush()

    def _wait(self, op: Operator) -> None:
        self._pending.append(op)
        self._of_pending.update(op.writes)

    def _take_back_of_edges(self) -> list[Operator]:
        """The last ones that wait and that make what edges carry: whoever reads that has not come yet."""
        found: list[Operator] = []
        while self._pending and _is_of_edges(self._cycle, self._pending[-1]):
            found.insert(0, self._pending.pop())
        return found

    def _look(self, program: Program) -> None:
        """What is in chunks. What edges carry is not put together, so where all of it is needed it is not cut."""
        while True:
            self._made, self._whole = set(), set()
            for op in program:
                self._look_at(op)
            of_edges = {name for name in self._whole if self._is_on_edges(name)}
            if not of_edges:
                return
            self._uncut |= of_edges

    def _look_at(self, op: Operator) -> None:
        """Whether an operator is in chunks, and what it needs all rows of."""
        if self._may_be_cut(op):
            self._made.update(op.writes)
        self._whole.update(self._made.intersection(self._all_rows_of(op)))
        self._whole.update(name for name in op.writes if name in self._made and name in self._cycle.results)

    def _may_be_cut(self, op: Operator) -> bool:
        values = [self._cycle.values[name] for name in (*op.reads, *op.writes)]
        if any(value.layout != "dense" or value.dtype != "float32" for value in values) or op.attributes.get("late"):
            return False
        if any(self._cycle.values[name].role == "cell" or name in self._uncut for name in op.writes):
            return False
        if op.kind in _OVER_EDGES:
            edges = [
                name
                for i, name in enumerate(op.reads)
                if KINDS[op.kind].need(i) is Need.EDGE and self._is_on_edges(name)
            ]
            return not op.attributes.get("back") and self._made.issuperset(edges)
        rows = [name for name in op.reads if not self._is_of_parameters(name)]
        is_by_row = KINDS[op.kind].by_row and len({self._cycle.values[name].space for name in rows}) == 1
        follows = bool(self._made.intersection(rows)) or all(self._cycle.values[n].role == "input" for n in rows)
        return (is_by_row or op.kind in _MOVING) and follows

    def _is_of_parameters(self, name: str) -> bool:
        return self._cycle.spaces[self._cycle.values[name].space].is_of_parameters

    def _is_on_edges(self, name: str) -> bool:
        return self._cycle.values[name].space.startswith("edges:")

    def _all_rows_of(self, op: Operator) -> list[str]:
        """What an operator reads that must be whole."""
        return KINDS[op.kind].gathered(op) if op.writes[0] in self._made else list(op.reads)

    def _flush(self) -> None:
        """What waits, in turns: in every turn each stage of the next chunk that has come to it."""
        stages = list(_stages(self._pending))
        for turn in range(self._ranges.num_chunks + len(stages) - 1 if stages else 0):
            for number, stage in enumerate(stages):
                if 0 <= turn - number < self._ranges.num_chunks:
                    for op in stage:
                        self._put(op, turn - number)
        self._pending, self._of_pending = [], set()

    def _put(self, op: Operator, chunk: int) -> None:
        """An operator on a chunk, and its rows among those of the chunks before."""
        gathered = KINDS[op.kind].gathered(op)
        reads = tuple(name if name in gathered else self._part(name, chunk) for name in op.reads)
        writes = tuple(_piece(name, chunk) for name in op.writes)
        attributes = {name: self._cut(name, value, chunk) for name, value in op.attributes.items()}
        self._emitter.append(replace(op, key=_piece(op.key, chunk), reads=reads, writes=writes, attributes=attributes))
        for name in (name for name in op.writes if name in self._whole):
            self._join(name, chunk)

    def _cut(self, name: str, value, chunk: int):
        if name == "block":
            return self._ranges.block(value, chunk)
        if name == "blocks":
            return tuple(self._ranges.block(each, chunk) for each in value)
        return self._ranges.route(value, chunk) if name == "route" else value

    def _part(self, name: str, chunk: int) -> str:
        """A chunk's rows of a value."""
        if name in self._made:
            return _piece(name, chunk)
        if self._is_of_parameters(name):
            return name
        part = f"{_piece(name, chunk)}/rows"
        if not any(op.writes == (part,) for op in self._emitter.operators):
            index = self._ranges.space(self._cycle.values[name].space, chunk)
            self._emitter.emit("take", name, key=part, index=index)
        return part

    def _join(self, name: str, chunk: int) -> None:
        assert not self._is_on_edges(name), f"{name} is read as a whole"
        space, last = self._cycle.values[name].space, self._ranges.num_chunks - 1
        index, base = self._ranges.space(space, chunk), (f"{_piece(name, chunk - 1)}/put",) if chunk else ()
        writes = (name,) if chunk == last else ()
        attributes = {"index": index} | ({"base": True} if base else {})
        self._emitter.emit(
            "put", _piece(name, chunk), *base, key=f"{_piece(name, chunk)}/put", writes=writes, **attributes
        )


def _stages(operators: list[Operator]) -> Iterator[list[Operator]]:
    """Operators up to each that all workers take part in, which is the last of its stage."""
    stage: list[Operator] = []
    for op in operators:
        stage.append(op)
        if KINDS[op.kind].collective:
            yield stage
            stage = []
    if stage:
        yield stage


def _piece(name: str, chunk: int) -> str:
    return f"{name}[{chunk}]"
