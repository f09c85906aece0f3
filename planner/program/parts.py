"""What a program is made of: spaces, values, operators, and the arrays that operators read.

All of it is sizes and names, so it needs neither the graph nor a device; the arrays' contents are in
`gnnplan.planner.program.arrays`. Everything is said of all workers at once: entry w of a tuple is worker w's.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np

Role = Literal["temporary", "input", "parameter", "cell"]
Lane = Literal["compute", "network"]
Dtype = Literal["float32", "bfloat16", "int32", "int64"]
Layout = Literal["dense", "csr"]
Tier = Literal["device", "host", "region", "disk", "pinned"]
ITEM_BYTES: Mapping[str, int] = {"float32": 4, "bfloat16": 2, "int32": 4, "int64": 8}
ON_BLOCK = " on "
"""In the name of an input with a row for every entry of a block, between what it is and the block."""


def parameter_space(num_rows: int) -> str:
    """The name of a space of a parameter's rows: as many on every worker, and not of vertices."""
    return f"r{num_rows}"


@dataclass(frozen=True, slots=True)
class Space:
    """Rows of one kind, as many as every worker holds of them.

    Args:
        sizes: rows, by worker.
        num_own: of vertices, how many of the rows are the worker's own; these come first.
        level: of vertices, how many aggregations lie between the input features and these rows.
    """

    name: str
    sizes: tuple[int, ...]
    num_own: tuple[int, ...] = ()
    level: int | None = None

    @property
    def is_of_parameters(self) -> bool:
        """Whether its rows are a parameter's, so as many on any graph."""
        return self.name == parameter_space(self.sizes[0])

    @property
    def is_of_vertices(self) -> bool:
        """Whether its rows are vertices, which a layout may share out."""
        return self.level is not None


@dataclass(frozen=True, slots=True)
class Value:
    """A matrix on every worker.

    A `temporary` ends after its last use. An `input` is given, a `parameter` is trained, and a `cell` is state that
    outlives its program: all three stay.

    Args:
        space: its rows.
        width: its columns, all of them.
        columns: (start, stop) of those that each worker has (None: all).
        num_entries: stored entries by worker, where the layout is `csr`.
        tier: where it lies: in the worker's own memory, in that of the host where a device has its own, in the region
            that the workers of its host share, in a file, of which the host's memory has what there is room for, or
            page-locked in the host's memory, of which a device takes rows.
    """

    name: str
    space: str
    width: int
    columns: tuple[tuple[int, int], ...] | None = None
    role: Role = "temporary"
    dtype: Dtype = "float32"
    layout: Layout = "dense"
    num_entries: tuple[int, ...] = ()
    tier: Tier = "device"

    def called(self, name: str, role: Role, tier: Tier) -> Value:
        """The same with another name, role and tier; in a third of the time of `dataclasses.replace`."""
        made = (name, self.space, self.width, self.columns, role, self.dtype, self.layout, self.num_entries, tier)
        return Value(*made)

    def num_columns(self, worker: int) -> int:
        """Columns that a worker has."""
        if self.columns is None:
            return self.width
        start, stop = self.columns[worker]
        return stop - start


@dataclass(frozen=True, slots=True)
class Operator:
    """One step that every worker takes, and one task of its trace.

    Args:
        key: the task's name, unique in a program.
        kind: a row of `gnnplan.planner.program.kinds`.
        reads, writes: names of values. With attribute `base` the last read is added to the first write.
        attributes: what else the kind needs; JSON values.
        lane: what it occupies while it runs.
        inplace: which read's storage the first write takes (None: none).
    """

    key: str
    kind: str
    reads: tuple[str, ...]
    writes: tuple[str, ...]
    attributes: Mapping[str, Any] = field(default_factory=dict)
    lane: Lane = "compute"
    inplace: int | None = None

    @property
    def has_base(self) -> bool:
        """Whether the last read is added to what is computed."""
        return bool(self.attributes.get("base"))


@dataclass(frozen=True, slots=True)
class Block:
    """A sparse matrix on every worker, from the rows it gathers (`column`) to the rows it makes (`row`).

    Args:
        num_edges: stored entries, by worker.
        content: the first block whose matrices are the same; equal ones are stored and held once (empty: itself).
        in_use: (of columns, of rows) the share in use where a product reads them, back those of rows
            (`gnnplan.planner.program.in_use`). A part has that of the whole.
    """

    name: str
    row: str
    column: str
    num_edges: tuple[int, ...]
    content: str = ""
    in_use: tuple[float, float] = (1.0, 1.0)

    def part(self, name: str, num_edges: tuple[int, ...], *, row: str = "", column: str = "") -> Block:
        """Some of its entries as a block of their own, between the same rows where no others are said."""
        return Block(name, row or self.row, column or self.column, num_edges, in_use=self.in_use)

    @property
    def edges(self) -> str:
        """The space of its edges, which stand in row order."""
        return f"edges:{self.name}"


@dataclass(frozen=True, slots=True)
class Index:
    """Rows of `source` that make up `target`.

    Args:
        is_view: they are consecutive on every worker, so taking them copies nothing.
        content: the first index whose rows are the same (empty: itself).
        num_runs: of consecutive rows among them, by worker (empty: they were not counted).
    """

    name: str
    source: str
    target: str
    is_view: bool = False
    content: str = ""
    num_runs: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class Route:
    """Rows from every worker to every other: `counts[p, q]` go from p to q.

    In `source` they are ordered by receiver, in `target` by sender.
    """

    name: str
    source: str
    target: str
    counts: np.ndarray

    def sent(self, *, back: bool = False) -> np.ndarray:
        """int64 [W, W], rows that p sends to q; `back`: on the way back."""
        return self.counts.T if back else self.counts
