"""Bytes of a block as operators read it: its matrix, or its edges one by one."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from gnnplan.planner.program.cycle import Cycle, Program
from gnnplan.planner.program.kinds import KINDS
from gnnplan.planner.program.outside import moves_outside
from gnnplan.planner.program.parts import Operator
from gnnplan.profiles.kernels.tiles import num_tiles

_INDEX_BYTES, _LONG_BYTES, _FLOAT_BYTES = 4, 8, 4


def matrix_bytes(cycle: Cycle, name: str, worker: int, back: bool, width: int) -> int:
    """A matrix in one of its directions; every tile points at the begin of each row.

    Args:
        width: of the widest rows that it is multiplied with on a CPU (0: it is not cut).
    """
    rows, _ = _shape(cycle, name, worker, back)
    entries_bytes = cycle.blocks[name].num_edges[worker] * (_FLOAT_BYTES + _INDEX_BYTES)
    return entries_bytes + num_tiles_of(cycle, name, worker, back, width) * (rows + 1) * _INDEX_BYTES


def edges_bytes(cycle: Cycle, name: str, worker: int) -> int:
    """Source, target and by-source edge as int64, and two row pointers."""
    block = cycle.blocks[name]
    rows, columns = (cycle.spaces[space].sizes[worker] for space in (block.row, block.column))
    return (3 * block.num_edges[worker] + rows + columns + 2) * _LONG_BYTES


def named_blocks(cycle: Cycle, op: Operator) -> set[str]:
    """Blocks that an operator names, equal ones once."""
    names = [*op.attributes.get("blocks", ()), *([op.attributes["block"]] if "block" in op.attributes else [])]
    return {cycle.blocks[name].content or name for name in names}


def edge_blocks(cycle: Cycle, op: Operator) -> set[str]:
    """Blocks that an operator reads edge by edge."""
    return named_blocks(cycle, op) if KINDS[op.kind].holds == "edges" else set()


Made = tuple[str, str, bool]
"""`matrix` or `edges`, of which block, and whether transposed."""


def made_blocks(
    cycle: Cycle,
    worker: int,
    programs: Iterable[Program],
    widths: Mapping[tuple[str, bool], int],
    *,
    beside_shard: bool = False,
) -> dict[Made, int]:
    """Bytes of every matrix that operators of these programs read, in each direction, and of all edges.

    Args:
        widths: as `widest_sums` gives them.
        beside_shard: the matrices that the worker has read lie in the same memory. One that is neither transposed nor
            cut is read where it lies.
    """
    found: dict[Made, int] = {}
    for op in (op for program in programs for op in program):
        found |= {("edges", name, False): edges_bytes(cycle, name, worker) for name in edge_blocks(cycle, op)}
        block = op.attributes.get("block")
        if not block or KINDS[op.kind].holds != "matrix":
            continue
        name, back = cycle.blocks[block].content or block, bool(op.attributes.get("back"))
        width = widths.get((name, back), 0)
        if not beside_shard or back or num_tiles_of(cycle, name, worker, back, width) > 1:
            found["matrix", name, back] = matrix_bytes(cycle, name, worker, back, width)
    return found


def blocks_bytes(
    cycle: Cycle,
    worker: int,
    programs: Iterable[Program],
    widths: Mapping[tuple[str, bool], int],
    *,
    beside_shard: bool = False,
) -> int:
    """Of all that `made_blocks` says, and `beside_shard` of all programs' matrices as the worker has read them."""
    made = sum(made_blocks(cycle, worker, programs, widths, beside_shard=beside_shard).values())
    if not beside_shard:
        return made
    read = {name for op in cycle.operators() for name in named_blocks(cycle, op)}
    return made + sum(matrix_bytes(cycle, name, worker, False, 0) for name in read)


def staged_bytes(cycle: Cycle, op: Operator, worker: int) -> Iterator[int]:
    """Of each block and index that goes to a GPU for an operator, where blocks lie in the host's memory."""
    if KINDS[op.kind].holds == "matrix":
        for name in named_blocks(cycle, op):
            yield matrix_bytes(cycle, name, worker, bool(op.attributes.get("back")), 0)
    for name in edge_blocks(cycle, op):
        yield edges_bytes(cycle, name, worker)
    if has_staged_index(cycle, op):
        yield _LONG_BYTES * cycle.spaces[cycle.indexes[op.attributes["index"]].target].sizes[worker]


def has_staged_index(cycle: Cycle, op: Operator) -> bool:
    """Whether an operator has an index on the GPU, of which some rows alone are touched.

    Where rows lie in the host's memory the host uses their index itself.
    """
    index = op.attributes.get("index", "")
    return KINDS[op.kind].by_part and not cycle.indexes[index].is_view and not moves_outside(cycle, op)


def num_tiles_of(cycle: Cycle, name: str, worker: int, back: bool, width: int) -> int:
    """Tiles that a CPU cuts a matrix into, in one of its directions (1: it does not)."""
    return num_tiles(*_shape(cycle, name, worker, back), cycle.blocks[name].num_edges[worker], width)


def _shape(cycle: Cycle, name: str, worker: int, back: bool) -> tuple[int, int]:
    """Rows and columns of a matrix in one of its directions."""
    block = cycle.blocks[name]
    rows, columns = (cycle.spaces[space].sizes[worker] for space in (block.row, block.column)[:: -1 if back else 1])
    return rows, columns
