"""Whether a worker's programs run loops that numba compiles, or multiply halves: both take memory of their own."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from gnnplan.planner.program.cycle import Cycle, Program
from gnnplan.planner.program.outside import is_staged
from gnnplan.planner.program.parts import Operator
from gnnplan.planner.program.sums import widest_sums
from gnnplan.planner.readers.block_bytes import num_tiles_of
from gnnplan.profiles.kernels.sparse import is_looped

COMPILED = frozenset({"softmax", "weigh", "dropout", "layer_norm", "moments", "batch_norm", "pair_score"})


def compiles(cycle: Cycle, programs: Sequence[Program], worker: int, *, on_cuda: bool) -> bool:
    """Whether any operator does: by its kind, its dropout, the precision of its rows, or how much it sums."""
    operators = [op for program in programs for op in program]
    if any(op.kind in COMPILED or op.attributes.get("dropout") for op in operators):
        return True
    if has_halves(cycle, programs):
        return True
    if on_cuda:
        return False
    widths = {} if is_staged(cycle) else widest_sums(cycle, worker)
    summed = (_summed(cycle, op, worker) for op in operators if not _is_in_tiles(cycle, op, worker, widths))
    return any(is_looped(*shape) for shape in summed)


def has_halves(cycle: Cycle, programs: Sequence[Program]) -> bool:
    """Whether any operator reads numbers of two bytes, for which a CPU loads code of its own."""
    return any(cycle.values[name].dtype == "bfloat16" for program in programs for op in program for name in op.reads)


def _is_in_tiles(cycle: Cycle, op: Operator, worker: int, widths: Mapping[tuple[str, bool], int]) -> bool:
    """Whether an operator sums by a matrix in tiles, which MKL multiplies whatever their size."""
    if op.kind != "aggregate":
        return False
    name, back = op.attributes["block"], bool(op.attributes.get("back"))
    name = cycle.blocks[name].content or name
    return num_tiles_of(cycle, name, worker, back, widths.get((name, back), 0)) > 1


def _summed(cycle: Cycle, op: Operator, worker: int) -> tuple[float, float]:
    """(rows, columns) of the dense float32 rows that a sparse matrix is multiplied with; none: (0, 0)."""
    if op.kind not in ("aggregate", "multiply", "gram"):
        return 0, 0
    x = cycle.values[op.reads[0]]
    if op.kind == "multiply":
        return (x.num_columns(worker), cycle.values[op.writes[0]].num_columns(worker)) if x.layout == "csr" else (0, 0)
    if op.kind == "gram" and x.layout == "csr":
        x = cycle.values[op.reads[1]]
        return cycle.num_rows(x.name, worker), x.num_columns(worker)
    is_sum = op.kind == "aggregate" or cycle.values[op.reads[1]].layout == "csr"
    return (cycle.num_rows(x.name, worker), x.num_columns(worker)) if is_sum and x.layout == "dense" else (0, 0)
