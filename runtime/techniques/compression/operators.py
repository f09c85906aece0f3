"""How rows are packed into fewer bytes, and unpacked."""

from __future__ import annotations

from torch import Tensor

from gnnplan.planner.program.parts import Operator
from gnnplan.profiles.kernels.compressed import compress, decompress
from gnnplan.runtime.execution.context import Context
from gnnplan.runtime.execution.table import Execution, executes


@executes("compress")
def _compress(c: Context, op: Operator) -> Execution:
    form = op.attributes["format"]
    return lambda x, error: (compress(x, error, form), error)


@executes("decompress")
def _decompress(c: Context, op: Operator) -> Execution:
    form, width = op.attributes["format"], op.attributes["width"]

    def run(packed: Tensor) -> Tensor:
        return decompress(packed, width, form)

    return run
