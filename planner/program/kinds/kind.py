"""What generic code knows of an operator kind."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING, Literal

from gnnplan.planner.program.parts import Operator, Value

if TYPE_CHECKING:
    from gnnplan.planner.program.cycle import Cycle
    from gnnplan.planner.program.derive import Derivation


class Need(Enum):
    """Which rows of a read a worker must hold to make its rows of the result. A layout places rows by it alone."""

    ROW = "the rows of the result"
    COLUMN = "the rows that the block gathers"
    BLOCK_ROW = "the rows that the block makes"
    EDGE = "the edges of the block"
    OWN = "each row of the graph once among all workers"
    WHOLE = "all of it, on every worker"


Shape = Callable[["Cycle", Operator], tuple[Value, ...]]
Derive = Callable[["Derivation", Operator, tuple[str | None, ...]], None]


@dataclass(frozen=True)
class Kind:
    """A row of the table.

    Args:
        meaning: in a line, with r the reads and w the writes.
        needs: of each read; the last one repeats.
        shape: what is written, as values without names.
        derive: emits the operators of its derivative (None: it has none).
        collective: all workers take part at once.
        blocking: a collective that is waited for where it stands, also where others run beside computation.
        by_row: rows of the result depend on the same rows of the reads alone, whichever rows these are.
        by_column: columns of the result depend on the same columns of the reads alone, or where it has heads on the
            same channels of each. Its reads are rows, or values on edges that have a column a head.
        varies: its result is another in every epoch, though its reads are not.
        takes_base: a last read may be added to the result.
        inplace: reads whose storage the first write may take.
        is_abstract: a pass must replace it before anything reads the program.
        streamed: a stage of a mini-batch: a policy says, while a program runs, which batch comes to it and when.
        by_part: of what its index names it touches these rows alone, so all the others may lie where they are slow.
        is_whole: no pass may make several of it, each over a part of what it gathers or writes.
        holds: what of its block the runtime has on the device: the `matrix`, its `edges` one by one, or the entries of
            a `diagonal` one.
        meant_in, executed_in: of a kind that a technique brings, the modules that say what it means to the sequential
            executor and how the runtime executes it. They are imported where they are first asked for (empty: they
            are there).
    """

    name: str
    meaning: str
    needs: tuple[Need, ...]
    shape: Shape
    derive: Derive | None = None
    collective: bool = False
    blocking: bool = False
    by_row: bool = False
    by_column: bool = False
    varies: bool = False
    takes_base: bool = False
    inplace: tuple[int, ...] = ()
    is_abstract: bool = False
    streamed: bool = False
    by_part: bool = False
    is_whole: bool = False
    holds: Literal["matrix", "edges", "diagonal"] = "edges"
    meant_in: str = ""
    executed_in: str = ""

    def need(self, read: int) -> Need:
        """What a read is needed for."""
        return self.needs[min(read, len(self.needs) - 1)]

    def gathered(self, operator: Operator) -> list[str]:
        """Reads of which an operator of this kind gathers rows over its block."""
        return [name for i, name in enumerate(operator.reads) if self.need(i) is Need.COLUMN]


KINDS: dict[str, Kind] = {}


def register(kind: Kind) -> Kind:
    """Adds a row to the table; a name stands there once."""
    assert kind.name not in KINDS, kind.name
    KINDS[kind.name] = kind
    return kind


def like(read: int = 0) -> Shape:
    """The shape of a read, dense."""

    def shape(cycle: Cycle, operator: Operator) -> tuple[Value, ...]:
        of = cycle.values[operator.reads[read]]
        return (Value("", of.space, of.width, of.columns),)

    return shape
