"""A cycle: the programs that one training repeats, and what they share."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, TypeVar

from gnnplan.planner.program.arrays import Arrays
from gnnplan.planner.program.parts import ITEM_BYTES, Block, Index, Operator, Route, Space, Value

Program = tuple[Operator, ...]
Values = Mapping[str, Value]
T = TypeVar("T")

SETUP = "setup"
EVALUATE = "evaluate"


@dataclass(frozen=True)
class Cycle:
    """The programs of a training. `order` says which one each epoch plays, over and over.

    A program called `setup` runs once before the first epoch, and one called `evaluate` after the last.

    Args:
        results: values that a program hands out, such as the loss.
        parameters: the shape of every parameter as its module has it, by state_dict key.
        seed: of everything that is drawn.
        arrays: contents of blocks, indexes and spaces (None: sizes alone, which is enough to simulate).
    """

    num_workers: int
    programs: Mapping[str, Program] = field(default_factory=dict)
    order: tuple[str, ...] = ()
    values: Values = field(default_factory=dict)
    spaces: Mapping[str, Space] = field(default_factory=dict)
    blocks: Mapping[str, Block] = field(default_factory=dict)
    indexes: Mapping[str, Index] = field(default_factory=dict)
    routes: Mapping[str, Route] = field(default_factory=dict)
    parameters: Mapping[str, tuple[int, ...]] = field(default_factory=dict)
    results: frozenset[str] = frozenset()
    seed: int = 0
    arrays: Arrays | None = None

    @cached_property
    def _found(self) -> dict[tuple[Callable, int], tuple[Program, Any]]:
        return {}

    def once(self, find: Callable[[Cycle, Program], T], program: Program) -> T:
        """What a function finds of a program, which it is asked for once."""
        key = find, id(program)
        if key not in self._found:
            self._found[key] = program, find(self, program)  # kept, so that no other program is taken for it
        return self._found[key][1]

    def without_arrays(self) -> Cycle:
        """The sizes alone, with what was found of the programs."""
        other = replace(self, arrays=None)
        vars(other)["_found"] = self._found
        return other

    @property
    def workers(self) -> range:
        """Ranks."""
        return range(self.num_workers)

    def operators(self) -> Iterator[Operator]:
        """Of all programs, one program after another."""
        return (op for program in self.programs.values() for op in program)

    def operators_of_epochs(self) -> Iterator[Operator]:
        """Of the programs that epochs play, one after another in `order`."""
        return (op for name in self.order for op in self.programs[name])

    def with_programs(self, rewrite: Callable[[Program], Program]) -> Cycle:
        """The cycle with each of its programs rewritten."""
        return replace(self, programs={name: rewrite(program) for name, program in self.programs.items()})

    def num_rows(self, value: str, worker: int) -> int:
        """Rows of a value on a worker."""
        return self.spaces[self.values[value].space].sizes[worker]

    def num_elements(self, value: str, worker: int) -> int:
        """Elements of a dense value on a worker; stored entries of a sparse one."""
        of = self.values[value]
        if of.layout == "csr":
            return of.num_entries[worker]
        return self.num_rows(value, worker) * of.num_columns(worker)

    def num_bytes(self, value: str, worker: int) -> int:
        """Bytes of a value on a worker; of a sparse one those of its entries, with int32 columns."""
        of = self.values[value]
        per_element = ITEM_BYTES[of.dtype] + (4 if of.layout == "csr" else 0)
        return self.num_elements(value, worker) * per_element
