"""Readers of a program: they know operators by their kinds, and no technique.

A kind of operator has one row in `COSTS`, or in `COLLECTIVES` where all workers take part. A technique that brings
kinds of its own registers their rows.
"""

from gnnplan.planner.readers import (  # noqa: F401  (register)
    cost_batch,
    cost_columns,
    cost_dense,
    cost_layer,
    cost_module,
    cost_rows,
    cost_sparse,
)
