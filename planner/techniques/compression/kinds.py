"""The kinds of rows in fewer bytes, with what they cost."""

from __future__ import annotations

from dataclasses import replace

from gnnplan.planner.costs import OperatorCosts
from gnnplan.planner.program.cycle import Cycle
from gnnplan.planner.program.kinds.kind import Kind, Need, register
from gnnplan.planner.program.parts import Operator, Value
from gnnplan.planner.readers.cost import costs, guess
from gnnplan.planner.readers.temporaries import TEMPORARIES
from gnnplan.profiles.curves import Estimate
from gnnplan.profiles.kernels.compressed import num_words, rows_at_once

_FLOAT_BYTES = 4
# Copies of the rows that take as long, from what each kernel reads and writes; none was profiled.
_COPIES = {
    ("compress", "float16"): 4,
    ("compress", "bfloat16"): 4,
    ("compress", "int8"): 7,
    ("decompress", "float16"): 1,
    ("decompress", "bfloat16"): 1,
    ("decompress", "int8"): 2,
}


def _compressed(cycle: Cycle, op: Operator) -> tuple[Value, ...]:
    x, error = (cycle.values[name] for name in op.reads)
    assert (x.space, x.width, x.columns, x.layout) == (error.space, error.width, None, "dense")
    words = num_words(x.width, op.attributes["format"])
    return Value("", x.space, words, dtype="int32"), Value("", x.space, x.width)


def _decompressed(cycle: Cycle, op: Operator) -> tuple[Value, ...]:
    packed, width = cycle.values[op.reads[0]], op.attributes["width"]
    assert packed.width == num_words(width, op.attributes["format"])
    return (Value("", packed.space, width),)


def _brought(kind: Kind) -> Kind:
    return register(
        replace(
            kind,
            meant_in="gnnplan.planner.techniques.compression.meanings",
            executed_in="gnnplan.runtime.techniques.compression.operators",
        )
    )


COMPRESS = _brought(
    Kind(
        "compress",
        "w0 = r0 + r1 in a `format` of fewer bytes, w1 = what that lacks: r1 is the w1 of the epoch before",
        (Need.ROW,),
        _compressed,
    )
)
DECOMPRESS = _brought(
    Kind("decompress", "w = the rows of `width` that r0 has in a `format` of fewer bytes", (Need.ROW,), _decompressed)
)


@costs("compress", "decompress")
def _seconds(cycle: Cycle, op: Operator, worker: int, cost: OperatorCosts) -> Estimate:
    full = op.reads[0] if op.kind == "compress" else op.writes[0]
    return guess(cost.copy(_COPIES[op.kind, op.attributes["format"]] * cycle.num_elements(full, worker)))


def _pieces(cycle: Cycle, op: Operator, worker: int, on_cuda: bool) -> list[int]:
    """Two matrices of the rows that are compressed in one piece."""
    x = cycle.values[op.reads[0]]
    rows = min(cycle.num_rows(x.name, worker), rows_at_once(x.width, on_cuda=on_cuda))
    return [rows * x.width * _FLOAT_BYTES] * 2


TEMPORARIES["compress"] = _pieces
