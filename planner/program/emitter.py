"""Writes operators: what they make follows from their kinds' shapes."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Any

from gnnplan.planner.program.arrays import Arrays
from gnnplan.planner.program.cycle import Cycle
from gnnplan.planner.program.kinds import KINDS
from gnnplan.planner.program.outside import OUTSIDE
from gnnplan.planner.program.parts import Block, Index, Operator, Role, Route, Space, Value, parameter_space


class Emitter:
    """Appends operators to a program of a cycle, and spaces, blocks and routes to the cycle.

    Args:
        cycle: what is there already; it is not changed.
    """

    def __init__(self, cycle: Cycle) -> None:
        self._values, self._spaces = dict(cycle.values), dict(cycle.spaces)
        self._blocks, self._indexes, self._routes = dict(cycle.blocks), dict(cycle.indexes), dict(cycle.routes)
        self._parameters, self._programs = dict(cycle.parameters), dict(cycle.programs)
        arrays = cycle.arrays
        self._arrays = (
            Arrays(dict(arrays.ids), dict(arrays.matrices), dict(arrays.rows), arrays.entries) if arrays else None
        )
        self.cycle = replace(
            cycle,
            values=self._values,
            spaces=self._spaces,
            blocks=self._blocks,
            indexes=self._indexes,
            routes=self._routes,
            parameters=self._parameters,
            programs=self._programs,
            arrays=self._arrays,
        )
        self.operators: list[Operator] = []
        self._keys: set[str] = set()
        self._named: set[str] = set()  # values that were named here, and those of earlier programs
        self._named_before: set[str] = set()

    def begin(self, operators: Iterable[Operator] = ()) -> None:
        """Starts a program, from operators that it has already."""
        self.operators, self._named = list(operators), set[str]()
        self._keys = {op.key for op in self.operators}

    def end(self, name: str) -> None:
        """The operators since `begin` are that program."""
        self._programs[name] = tuple(self.operators)
        self._named_before |= self._named

    def emit(self, kind: str, *reads: str, key: str, writes: Sequence[str] = (), **attributes: Any) -> str:
        """An operator that writes one value; returns its name, which is the key where `writes` does not say."""
        (name,) = self.emit_all(kind, *reads, key=key, writes=writes, **attributes)
        return name

    def emit_all(
        self, kind: str, *reads: str, key: str, writes: Sequence[str] = (), **attributes: Any
    ) -> tuple[str, ...]:
        """An operator, and the names of all that it writes."""
        return self.append(Operator(self._unique(key), kind, reads, tuple(writes), attributes))

    def append(self, operator: Operator) -> tuple[str, ...]:
        """An operator as it stands; its values take the shapes of its kind, and keep the roles they had."""
        assert operator.key not in self._keys, operator.key
        self._keys.add(operator.key)
        shapes = KINDS[operator.kind].shape(self.cycle, operator)
        writes = operator.writes or self._names(operator.key, shapes)
        for name, value in zip(writes, shapes, strict=True):
            self._fix_space(value.space)
            known = self._values.get(name)
            role: Role = known.role if known else "temporary"
            tier = known.tier if known and known.tier in OUTSIDE else value.tier
            self._values[name] = value.called(name, role, tier)
        self.operators.append(operator if operator.writes == writes else replace(operator, writes=writes))
        return writes

    def _names(self, key: str, shapes: Sequence[Value]) -> tuple[str, ...]:
        """Of what an operator writes, by its key; where that of an earlier program has another shape, another name."""
        found = []
        for i, shape in enumerate(shapes):
            first = name = f"{key}#{i}" if i else key
            number = 1
            while name in self._named_before and not _is_like(self._values[name], shape):
                number += 1
                name = f"{first}~{number}"
            found.append(name)
        self._named.update(found)
        return tuple(found)

    def _unique(self, key: str) -> str:
        number, name = 1, key
        while name in self._keys:
            number += 1
            name = f"{key}.{number}"
        return name

    def _fix_space(self, name: str) -> None:
        if name not in self._spaces:
            assert name.startswith("r"), f"space {name} is not there"
            self._spaces[name] = Space(name, (int(name[1:]),) * self.cycle.num_workers)

    def add_value(self, value: Value) -> str:
        """A value that no operator makes, or whose role is to be set."""
        self._fix_space(value.space)
        self._values[value.name] = value
        return value.name

    def add_parameter(self, name: str, *shape: int) -> str:
        """A parameter; as a matrix it is [first extent, the others], a vector one row."""
        rows = shape[0] if len(shape) > 1 else 1
        width = 1
        for extent in shape[1:] if len(shape) > 1 else shape:
            width *= extent
        self._parameters[name] = shape
        return self.add_value(Value(name, parameter_space(rows), width, role="parameter"))

    def add_space(self, space: Space, ids=None) -> str:
        """A space, with its vertices on every worker."""
        self._spaces[space.name] = space
        if ids is not None and self._arrays is not None:
            self._arrays.ids[space.name] = tuple(ids)  # type: ignore[index]
        return space.name

    def add_block(self, block: Block, matrices=None) -> str:
        """A block, the space of its edges, and its matrices."""
        self._blocks[block.name] = block
        self._spaces[block.edges] = Space(block.edges, block.num_edges)
        if matrices is not None and self._arrays is not None:
            self._arrays.matrices[block.name] = tuple(matrices)  # type: ignore[index]
        return block.name

    def add_index(self, index: Index, rows=None) -> str:
        """An index, with its rows on every worker."""
        self._indexes[index.name] = index
        if rows is not None and self._arrays is not None:
            self._arrays.rows[index.name] = tuple(rows)  # type: ignore[index]
        return index.name

    def add_route(self, route: Route) -> str:
        """A route."""
        self._routes[route.name] = route
        return route.name


def _is_like(one: Value, other: Value) -> bool:
    """Whether two values have the same shape."""
    return replace(one, name="", role="temporary") == replace(other, name="", role="temporary")
