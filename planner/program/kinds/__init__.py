"""The table of operator kinds, the heart of the program.

What an operator computes is said in four places that a test holds together: here (shapes, needs, derivative),
in `gnnplan.planner.readers` (cost and bytes), in `gnnplan.planner.program.sequential` (the reference) and in
`gnnplan.runtime.execution` (fast). A technique that brings kinds of its own registers them in each.
"""

from gnnplan.planner.program.kinds.kind import KINDS, Kind, Need

__all__ = ["KINDS", "Kind", "Need"]

from gnnplan.planner.program.kinds import (  # noqa: F401  (register)
    attention,
    batch,
    columns,
    dense,
    elementwise,
    functions,
    joins,
    layer,
    norms,
    pairs,
    reduce,
    region,
    sparse,
    stacked,
    travel,
)
