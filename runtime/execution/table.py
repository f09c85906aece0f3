"""How each kind of operator is executed on a device; the same kinds as the planner's table, which a test holds."""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from typing import Any

from gnnplan.planner.program.kinds import KINDS
from gnnplan.planner.program.parts import Operator
from gnnplan.runtime.execution.context import Context

Execution = Callable[..., Any]
"""Takes what an operator reads and returns what it writes: a tensor, or a tuple where it writes several."""

Bind = Callable[[Context, Operator], Execution]
"""Looks up once what an operator needs beside its reads: matrices, rows, attributes."""

EXECUTIONS: dict[str, Bind] = {}


def executes(kind: str) -> Callable[[Bind], Bind]:
    """Registers how a kind is executed."""

    def put(bind: Bind) -> Bind:
        assert kind not in EXECUTIONS, kind
        EXECUTIONS[kind] = bind
        return bind

    return put


def execution_of(kind: str) -> Bind:
    """How a kind is executed; the module of a technique that brings it is imported."""
    if kind not in EXECUTIONS and KINDS[kind].executed_in:
        import_module(KINDS[kind].executed_in)
    return EXECUTIONS[kind]
