"""Plays any program of any number of workers in one process: the reference that every other execution equals.

It says what each kind means in plain torch, in any precision, without a fast kernel, a device or a socket.
"""

from gnnplan.planner.program.sequential import (  # noqa: F401  (register)
    meanings_columns,
    meanings_functions,
    meanings_norms,
)
from gnnplan.planner.program.sequential.executor import SequentialExecutor

__all__ = ["SequentialExecutor"]
