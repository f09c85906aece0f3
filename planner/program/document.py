"""A cycle in a document: everything but the arrays' contents, so that it can be simulated without its graph."""

from __future__ import annotations

from typing import Annotated, Any, Self

import numpy as np
from pydantic import Field, JsonValue, NonNegativeInt, model_validator

from gnnplan.planner.program.consistency import fault_of
from gnnplan.planner.program.cycle import Cycle
from gnnplan.planner.program.parts import (
    Block,
    Dtype,
    Index,
    Lane,
    Layout,
    Operator,
    Role,
    Route,
    Space,
    Tier,
    Value,
)
from gnnplan.profiles.contract import Contract
from gnnplan.profiles.limits import MAX_EDGES, MAX_ORDER, MAX_PARAMETERS, Width, Workers

Size = Annotated[int, Field(ge=0, le=MAX_EDGES)]
Sizes = tuple[Size, ...]
ShareInUse = Annotated[float, Field(gt=0, le=1)]


class SpaceDocument(Contract):
    """A `Space` under its name."""

    sizes: Sizes
    num_own: Sizes = ()
    level: NonNegativeInt | None = None


class ValueDocument(Contract):
    """A `Value` under its name."""

    space: str
    width: Annotated[int, Field(ge=0, le=MAX_PARAMETERS)]
    columns: tuple[tuple[Size, Size], ...] | None = None
    role: Role = "temporary"
    dtype: Dtype = "float32"
    layout: Layout = "dense"
    num_entries: Sizes = ()
    tier: Tier = "device"


class OperatorDocument(Contract):
    """An `Operator`."""

    key: str
    kind: str
    reads: tuple[str, ...]
    writes: tuple[str, ...]
    attributes: dict[str, JsonValue] = Field(default_factory=dict)
    lane: Lane = "compute"
    inplace: NonNegativeInt | None = None


class BlockDocument(Contract):
    """A `Block` under its name."""

    row: str
    column: str
    num_edges: Sizes
    content: str = ""
    in_use: tuple[ShareInUse, ShareInUse] = (1.0, 1.0)


class IndexDocument(Contract):
    """An `Index` under its name."""

    source: str
    target: str
    is_view: bool = False
    num_runs: Sizes = ()
    content: str = ""


class RouteDocument(Contract):
    """A `Route` under its name."""

    source: str
    target: str
    counts: tuple[Sizes, ...]


class CycleDocument(Contract):
    """A `Cycle` without arrays."""

    num_workers: Workers
    programs: dict[str, tuple[OperatorDocument, ...]]
    order: tuple[str, ...] = Field(max_length=MAX_ORDER)
    values: dict[str, ValueDocument]
    spaces: dict[str, SpaceDocument]
    blocks: dict[str, BlockDocument]
    indexes: dict[str, IndexDocument]
    routes: dict[str, RouteDocument]
    parameters: dict[str, tuple[Width, ...]]
    results: tuple[str, ...]
    seed: NonNegativeInt

    @classmethod
    def of(cls, cycle: Cycle) -> CycleDocument:
        """The document of a cycle; what no operator reads is left out."""
        spaces, values = _spaces_used(cycle), _values_used(cycle)
        return cls(
            num_workers=cycle.num_workers,
            programs={name: tuple(map(_operator_document, ops)) for name, ops in cycle.programs.items()},
            order=cycle.order,
            values={n: ValueDocument(**_fields(v)) for n, v in cycle.values.items() if n in values},
            spaces={n: SpaceDocument(**_fields(s)) for n, s in cycle.spaces.items() if n in spaces},
            blocks={n: BlockDocument(**_fields(b)) for n, b in cycle.blocks.items() if b.content},
            indexes={n: IndexDocument(**_fields(i)) for n, i in cycle.indexes.items() if i.content},
            routes={
                n: RouteDocument(source=r.source, target=r.target, counts=_nested(r.counts))
                for n, r in cycle.routes.items()
            },
            parameters=dict(cycle.parameters),
            results=tuple(sorted(cycle.results)),
            seed=cycle.seed,
        )

    @model_validator(mode="after")
    def _is_a_cycle(self) -> Self:
        if any(len(row) != len(route.counts) for route in self.routes.values() for row in route.counts):
            raise ValueError("routes: counts must have a row and a column for every worker")
        if fault := fault_of(self.cycle()):
            raise ValueError(fault)
        return self

    def cycle(self) -> Cycle:
        """The cycle, without arrays."""
        return Cycle(
            self.num_workers,
            {name: tuple(map(_operator, program)) for name, program in self.programs.items()},
            self.order,
            {name: Value(name, **dict(value)) for name, value in self.values.items()},
            {name: Space(name, **dict(space)) for name, space in self.spaces.items()},
            {name: Block(name, **dict(block)) for name, block in self.blocks.items()},
            {name: Index(name, **dict(index)) for name, index in self.indexes.items()},
            {name: Route(name, r.source, r.target, np.array(r.counts, np.int64)) for name, r in self.routes.items()},
            self.parameters,
            frozenset(self.results),
            self.seed,
        )


def _fields(part: Any) -> dict[str, Any]:
    return {name: getattr(part, name) for name in part.__dataclass_fields__ if name != "name"}


def _operator_document(op: Operator) -> OperatorDocument:
    attributes = {name: _as_json(value) for name, value in op.attributes.items()}
    return OperatorDocument(
        key=op.key,
        kind=op.kind,
        reads=op.reads,
        writes=op.writes,
        attributes=attributes,
        lane=op.lane,
        inplace=op.inplace,
    )


def _operator(op: OperatorDocument) -> Operator:
    attributes = {name: _as_attribute(value) for name, value in op.attributes.items()}
    return Operator(op.key, op.kind, op.reads, op.writes, attributes, op.lane, op.inplace)


def _as_json(value: Any) -> Any:
    return [_as_json(each) for each in value] if isinstance(value, tuple) else value


def _as_attribute(value: Any) -> Any:
    return tuple(map(_as_attribute, value)) if isinstance(value, list) else value


def _nested(counts: np.ndarray) -> tuple[tuple[int, ...], ...]:
    return tuple(tuple(row) for row in counts.tolist())


def _values_used(cycle: Cycle) -> set[str]:
    named = {name for op in cycle.operators() for name in (*op.reads, *op.writes)}
    like = {name for op in cycle.operators() for name in op.attributes.get("like", ())}
    return named | like


def _spaces_used(cycle: Cycle) -> set[str]:
    found = {cycle.values[name].space for name in _values_used(cycle)}
    for block in cycle.blocks.values():
        if block.content:
            found |= {block.row, block.column, block.edges}
    for index in cycle.indexes.values():
        if index.content:
            found |= {index.source, index.target}
    for route in cycle.routes.values():
        found |= {route.source, route.target}
    return found
