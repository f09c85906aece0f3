"""The pass: rows of vertices are bfloat16 wherever the operators that write and read them can have them so."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace

from gnnplan.planner.program.cells import starting_cells
from gnnplan.planner.program.cycle import Cycle, Program
from gnnplan.planner.program.parts import Dtype, Operator, Value
from gnnplan.planner.techniques.half_precision.kinds import NARROW, WIDEN


@dataclass(frozen=True)
class _Takes:
    """How a kind takes halves.

    Args:
        reads: how many of its reads must be halves, with what is added to its result (None: all).
        writes: whether its first write is one. Gradients of parameters never are.
        is_heavy: it gains so much that reads are narrowed for it; others go along where their reads are halves.
    """

    reads: int | None = 1
    writes: bool = True
    is_heavy: bool = False


TAKES: Mapping[str, _Takes] = {
    "multiply": _Takes(2, is_heavy=True),
    "gram": _Takes(2, writes=False, is_heavy=True),
    "aggregate": _Takes(is_heavy=True),
    "exchange": _Takes(is_heavy=True),
    "activate": _Takes(),
    "activate_grad": _Takes(2),
    "column_sum": _Takes(writes=False),
    "dropout": _Takes(),
    "add": _Takes(2),
    "scale": _Takes(),
    "take": _Takes(),
    "place": _Takes(None),
    "put": _Takes(),
    "scatter_add": _Takes(),
}


def halve(cycle: Cycle) -> Cycle:
    """The cycle whose rows are bfloat16: features, what layers write, its gradients, and what travels.

    Sums are made in float32 and rounded when they are written. Parameters, their gradients, the optimizer's state and
    the loss stay float32. What cannot take halves reads a float32 copy.
    """
    taken = {op.reads[at] for op in cycle.operators() if op.kind in TAKES for at in _places(op, TAKES[op.kind])}
    staying = {name for name in taken if _may_stay_half(cycle, cycle.values[name])}
    wide: set[str] = set()
    while True:
        rewriter = _Rewriter(cycle, staying - wide, wide)
        programs = {name: rewriter.rewritten(program) for name, program in cycle.programs.items()}
        both = rewriter.written_small & rewriter.written_wide
        if not both:
            return replace(cycle, values=rewriter.values, programs=programs)
        wide |= both


def _may_stay_half(cycle: Cycle, value: Value) -> bool:
    """Rows of vertices that outlive a program: features, and what the setup makes of them."""
    is_made = value.role == "cell" and value.name not in starting_cells(cycle)
    return (value.role == "input" or is_made) and _is_plain(value) and cycle.spaces[value.space].is_of_vertices


def _is_plain(value: Value) -> bool:
    return value.layout == "dense" and value.dtype == "float32" and value.tier == "device"


@dataclass
class _Rewriter:
    """Rewrites the programs of a cycle.

    Args:
        staying: values that outlive a program and are to be halves.
        wide: values that some program writes in float32, so that their halves have other names.
        written_small, written_wide: what programs write of each; a value of both is to be `wide`.
    """

    cycle: Cycle
    staying: set[str]
    wide: set[str]
    values: dict[str, Value] = field(init=False)
    written_small: set[str] = field(init=False)
    written_wide: set[str] = field(default_factory=set)
    _ops: list[Operator] = field(init=False)
    _halves: dict[str, str] = field(init=False)  # what holds a value's numbers as halves
    _small: dict[str, str] = field(init=False)  # the same, of what is nowhere in float32

    def __post_init__(self) -> None:
        self.values, self.written_small = dict(self.cycle.values), set(self.staying)
        for name in self.staying:
            self.values[name] = replace(self.values[name], dtype="bfloat16")

    def rewritten(self, program: Program) -> Program:
        self._ops, self._halves = [], {name: name for name in self.staying}
        self._small = dict(self._halves)
        for op in program:
            takes = TAKES.get(op.kind)
            if takes and self._fits(op, takes):
                self._in_halves(op, takes)
            else:
                self._in_float32(op)
        return tuple(self._ops)

    def _fits(self, op: Operator, takes: _Takes) -> bool:
        rows = [op.reads[place] for place in _places(op, takes)]
        if all(self.cycle.spaces[self.values[name].space].is_of_parameters for name in rows):
            return False  # what parameters alone make is small, and every row after it would be less exact
        if any(name not in self._halves and not _is_plain(self.values[name]) for name in rows):
            return False
        if op.attributes.get("late") or any(self.values[name].tier != "device" for name in op.writes):
            return False  # what comes late is kept from epoch to epoch
        return takes.is_heavy or all(name in self._halves for name in rows)

    def _in_halves(self, op: Operator, takes: _Takes) -> None:
        reads = list(op.reads)
        for place in _places(op, takes):
            reads[place] = self._half_of(op, place)
        op = replace(op, reads=tuple(reads))
        if not takes.writes:
            self._ops.append(op)
            return
        name, *others = op.writes
        value = self.values[name]
        is_own = name not in self.wide and (value.role == "temporary" or name in self.staying)
        half = self._add(name if is_own and name not in self.cycle.results else f"{name}/half", value, "bfloat16")
        self._ops.append(replace(op, writes=(half, *others)))
        self._halves[name] = half
        if half != name and (value.role != "temporary" or name in self.cycle.results):
            self._ops.append(Operator(f"{op.key}/widen", WIDEN.name, (half,), (name,)))
            self.written_wide.add(name)
        else:
            self.written_small |= {name} if half == name else set()
            self._small[name] = half

    def _in_float32(self, op: Operator) -> None:
        reads = []
        for place, name in enumerate(op.reads):
            if small := self._small.get(name):
                name = self._add(f"{name}/wide for {op.key}/{place}", self.cycle.values[name], "float32")
                self._ops.append(Operator(f"{op.key}/widen{place}", WIDEN.name, (small,), (name,)))
            reads.append(name)
        self._ops.append(replace(op, reads=tuple(reads)))
        self.written_wide.update(op.writes)

    def _half_of(self, op: Operator, place: int) -> str:
        """Made once where the value stays the same until the program ends."""
        name = op.reads[place]
        if name in self._halves:
            return self._halves[name]
        may_change = self.values[name].role == "cell"
        key = f"{name}/narrow for {op.key}/{place}" if may_change else f"{name}/narrow"
        half = self._add(key.replace("/narrow", "/half"), self.values[name], "bfloat16")
        self._ops.append(Operator(key, NARROW.name, (name,), (half,)))
        if not may_change:
            self._halves[name] = half
        return half

    def _add(self, name: str, like: Value, dtype: Dtype) -> str:
        role = like.role if name == like.name else "temporary"
        self.values[name] = replace(like, name=name, role=role, dtype=dtype)
        return name


def _places(op: Operator, takes: _Takes) -> Iterator[int]:
    """Of the reads that must be halves."""
    last = len(op.reads) - 1
    yield from range(len(op.reads) if takes.reads is None else min(takes.reads, len(op.reads)))
    if op.has_base and takes.reads is not None and takes.reads <= last:
        yield last
