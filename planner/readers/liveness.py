"""Bytes of a worker: which tensors of a program live at once, and what stays from one program to the next.

Two figures come out. The most bytes alive at once is what CUDA's allocator holds. What the CPU's pool holds is more:
it hands a freed block only to a tensor of the same size (`gnnplan.profiles.kernels.pool`), so of every size the most
that live at once are held.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from dataclasses import dataclass, field

from gnnplan.planner.program.aliases import owners, views
from gnnplan.planner.program.cycle import SETUP, Cycle, Program
from gnnplan.planner.program.edges import awaited
from gnnplan.planner.program.outside import is_staged
from gnnplan.planner.program.parts import ITEM_BYTES, Operator, Tier, Value
from gnnplan.planner.readers.block_bytes import staged_bytes
from gnnplan.planner.readers.temporaries import temporary_bytes
from gnnplan.profiles.kernels.pool import POOLED_BYTES, block_bytes, classes_of

_MANY_SIZES = 24


@dataclass
class Held:
    """Tensors that are made and dropped, by the bytes of their blocks.

    Args:
        classes: of blocks, as `gnnplan.profiles.kernels.pool.block_bytes` takes them.
        live_bytes, peak_bytes: alive now, and the most that were.
        most: by size, the most tensors that were alive at once.
    """

    classes: tuple[int, ...] = ()
    live_bytes: int = 0
    peak_bytes: int = 0
    most: Counter[int] = field(default_factory=Counter)
    _live: Counter[int] = field(default_factory=Counter)

    def make(self, num_bytes: int) -> None:
        """A tensor more."""
        size = block_bytes(num_bytes, self.classes)
        self._live[size] += 1
        self.most[size] = max(self.most[size], self._live[size])
        self.live_bytes += size
        self.peak_bytes = max(self.peak_bytes, self.live_bytes)

    def drop(self, num_bytes: int) -> None:
        """A tensor less."""
        size = block_bytes(num_bytes, self.classes)
        self._live[size] -= 1
        assert self._live[size] >= 0, num_bytes
        self.live_bytes -= size

    @property
    def held_bytes(self) -> int:
        """What the pool's blocks amount to, and small tensors beside them."""
        return sum(size * count for size, count in self.most.items())

    @property
    def pooled(self) -> dict[int, int]:
        """The pool's blocks alone: how many by their bytes."""
        return {size: count for size, count in self.most.items() if size >= POOLED_BYTES}


def training_bytes(cycle: Cycle, worker: int, *, on_cuda: bool = False, tier: Tier = "device") -> Held:
    """What the programs of training make and drop on a worker, cells that exchanges fill among it.

    Where there are many sizes, as of many chunks, tensors of nearly the same size share blocks if less is held so. The
    executor takes `classes` from here.

    Args:
        tier: of what is counted.
    """
    held = _training_bytes(cycle, worker, on_cuda, (), tier)
    if on_cuda or len(held.pooled) < _MANY_SIZES or tier != "device":
        return held
    shared = _training_bytes(cycle, worker, on_cuda, classes_of(held.pooled), tier)
    return min(held, shared, key=lambda each: each.held_bytes)


def _training_bytes(cycle: Cycle, worker: int, on_cuda: bool, classes: tuple[int, ...], tier: Tier) -> Held:
    reader = _Reader(cycle, worker, on_cuda, classes, tier)
    if SETUP in cycle.programs:  # its cells live on, but what it makes besides is given back before training
        reader.keep(cycle.programs[SETUP])
    for name in (*dict.fromkeys(cycle.order), cycle.order[0]):
        reader.play(cycle.programs[name])
    return reader.held


def setup_bytes(cycle: Cycle, worker: int, *, on_cuda: bool = False) -> Held:
    """What the setup makes and drops on a worker."""
    reader = _Reader(cycle, worker, on_cuda)
    reader.play(cycle.programs.get(SETUP, ()))
    return reader.held


class _Reader:
    def __init__(
        self, cycle: Cycle, worker: int, on_cuda: bool, classes: tuple[int, ...] = (), tier: Tier = "device"
    ) -> None:
        self.cycle, self.worker, self.on_cuda, self.held, self.tier = cycle, worker, on_cuda, Held(classes), tier
        self._is_staged = is_staged(cycle)
        self._cells: dict[str, int] = {}

    def keep(self, program: Program) -> None:
        """Cells that a program fills, without what it makes on the way."""
        for op in program:
            for name in op.writes:
                if _is_cell(self.cycle.values[name], self.tier) and not views(self.cycle, op):
                    self._make_cell(name)

    def play(self, program: Program) -> None:
        """The tensors of a program, in its order; results live to its end."""
        alive: dict[str, int] = {}
        for op, step in zip(program, self.cycle.once(_STEPS[self.tier], program), strict=True):
            self._execute(op, step, alive)
            for name in step.over:
                if name in alive:
                    self.held.drop(alive.pop(name))
        for num_bytes in alive.values():
            self.held.drop(num_bytes)

    def _execute(self, op: Operator, step: _Step, alive: dict[str, int]) -> None:
        temporaries = self._temporary_bytes(op)
        for name in step.cells:
            self._make_cell(name)
        for name in step.made:
            alive[name] = self.cycle.num_bytes(name, self.worker)
            self.held.make(alive[name])
        for name in step.dropped if self.on_cuda else ():  # sparse rows: new entries, by rows and by columns
            value = self.cycle.values[name]
            alive[name] = 2 * ITEM_BYTES[value.dtype] * self.cycle.num_elements(name, self.worker)
            self.held.make(alive[name])
        for num_bytes in temporaries:
            self.held.make(num_bytes)
        for num_bytes in temporaries:
            self.held.drop(num_bytes)

    def _temporary_bytes(self, op: Operator) -> list[int]:
        if self.tier != "device":
            return []
        staged = staged_bytes(self.cycle, op, self.worker) if self._is_staged else ()
        return [*temporary_bytes(self.cycle, op, self.worker, on_cuda=self.on_cuda), *staged]

    def _make_cell(self, name: str) -> None:
        """A cell that is written anew: what it held before is dropped first."""
        if name in self._cells:
            self.held.drop(self._cells[name])
        self._cells[name] = self.cycle.num_bytes(name, self.worker)
        self.held.make(self._cells[name])


@dataclass(frozen=True)
class _Step:
    """What an operator makes, and which tensors are over with it.

    Args:
        cells, made: that it writes; `dropped` are rows that a dropout writes and that are none of these.
        over: nobody reads them any more.
    """

    cells: tuple[str, ...]
    made: tuple[str, ...]
    dropped: tuple[str, ...]
    over: tuple[str, ...]


def _steps_on_device(cycle: Cycle, program: Program) -> list[_Step]:
    return _steps(cycle, program, "device")


def _steps_on_disk(cycle: Cycle, program: Program) -> list[_Step]:
    return _steps(cycle, program, "disk")


def _steps_pinned(cycle: Cycle, program: Program) -> list[_Step]:
    return _steps(cycle, program, "pinned")


_STEPS = {"device": _steps_on_device, "disk": _steps_on_disk, "pinned": _steps_pinned}


def _steps(cycle: Cycle, program: Program, tier: Tier) -> list[_Step]:
    """Of every operator of a program, on any worker."""
    owner, last, found = cycle.once(owners, program), _last_uses(cycle, program), []
    over: dict[int, list[str]] = defaultdict(list)
    for name, number in last.items():
        over[number].append(name)
    for number, op in enumerate(program):
        values = [(name, cycle.values[name]) for name in op.writes]
        cells = tuple(name for name, value in values if _is_cell(value, tier) and name not in op.reads)
        made = tuple(
            name for name, value in values if value.role == "temporary" and name not in owner and _is_in(value, tier)
        )
        dropped = tuple(name for name in op.writes if name not in cells + made) if op.kind == "dropout" else ()
        found.append(_Step(cells, made, dropped, tuple(over[number])))
    return found


def _last_uses(cycle: Cycle, program: Program) -> dict[str, int]:
    """By storage the last operator that uses it; of results there is none in the program."""
    owner = cycle.once(owners, program)
    waiter = {name: number for number, names in enumerate(awaited(cycle, program)) for name in names}
    last: dict[str, int] = {}
    for number, op in enumerate(program):
        for name in (*op.writes, *op.reads):
            last[owner.get(name, name)] = number
    for op in program:
        if op.lane == "network":  # what is sent lives until somebody waits for what comes
            sent = owner.get(op.reads[0], op.reads[0])
            last[sent] = max(last[sent], waiter.get(op.writes[0], len(program)) - 1)
    for name in cycle.results:
        if owner.get(name, name) in last:
            last[owner.get(name, name)] = len(program)
    return last


def _is_cell(value: Value, tier: Tier) -> bool:
    return value.role == "cell" and _is_in(value, tier)


def _is_in(value: Value, tier: Tier) -> bool:
    """Whether a value takes memory of a tier; sparse ones count among the inputs."""
    return value.layout == "dense" and value.tier == tier
