"""A module's forward as a list of calls, by torch.fx: layers stay whole, everything around them is taken apart."""

from __future__ import annotations

import inspect
import re
import traceback
from typing import Any

import torch
import torch.fx
from torch_geometric.nn import MessagePassing

from gnnplan.profiles.errors import UserError

_WHOLE = ("torch_geometric.nn.norm", "torch_geometric.nn.dense", "torch_geometric.nn.aggr", "torch_geometric.nn.pool")
_JOINS = "torch_geometric.nn.models.jumping_knowledge"
_THEIRS = re.compile(r"/(torch|torch_geometric|gnnplan/planner|planner/models)/")
_FRAME = re.compile(r'File "(?P<file>[^"]+)", line (?P<line>\d+)')


class Tracer(torch.fx.Tracer):
    """Leaves layers, norms and joins whole, and knows where in the user's code each call stands."""

    def __init__(self) -> None:
        super().__init__()
        self.record_stack_traces = True

    def is_leaf_module(self, m: torch.nn.Module, module_qualified_name: str) -> bool:
        """Whether a module is one call."""
        where = type(m).__module__
        is_whole = isinstance(m, MessagePassing) or where.startswith(_WHOLE) or where == _JOINS
        return is_whole or super().is_leaf_module(m, module_qualified_name)


def traced(module: torch.nn.Module, num_inputs: int) -> torch.fx.Graph:
    """The calls of a module's forward, in its present mode (training or evaluation).

    Args:
        num_inputs: leading arguments of forward that are given; all others stay at what they are by themselves.

    Raises:
        UserError: what it does next depends on numbers, or it takes another argument.
    """
    inputs = list(inspect.signature(module.forward).parameters.values())
    name = type(module).__name__
    if len(inputs) < num_inputs:
        raise UserError(f"{line_of_class(module)}: forward of {name} must take {_WORDS[num_inputs]}")
    for extra in inputs[num_inputs:]:
        if extra.default is extra.empty:
            raise UserError(
                f"{line_of_class(module)}: forward of {name} also takes {extra.name!r}, and is given "
                f"{_WORDS[num_inputs]} alone; give it a default, or leave it out"
            )
    try:
        return Tracer().trace(module, {extra.name: extra.default for extra in inputs[num_inputs:]})
    except UserError:
        raise
    except Exception as error:
        where = _where(traceback.extract_tb(error.__traceback__)) or line_of_class(module)
        raise UserError(
            f"{where}: {name} cannot be traced: {_first_line(error)}; forward must make the same calls whatever the "
            f"numbers are"
        ) from error


_WORDS = {1: "(x)", 2: "(x, edge_index)"}


def line_of(node: torch.fx.Node, module: torch.nn.Module) -> str:
    """`file:line` of a call in the user's code."""
    frames = [(match["file"], match["line"]) for match in _FRAME.finditer(node.stack_trace or "")]
    theirs = [frame for frame in frames if not _THEIRS.search(frame[0])]
    return ":".join((theirs or frames)[-1]) if frames else line_of_class(module)


def line_of_class(module: torch.nn.Module) -> str:
    """`file:line` at which a module's class begins."""
    try:
        return f"{inspect.getsourcefile(type(module))}:{inspect.getsourcelines(type(module))[1]}"
    except (OSError, TypeError):
        return type(module).__name__


def _where(frames: traceback.StackSummary) -> str:
    theirs = [frame for frame in frames if not _THEIRS.search(frame.filename)]
    theirs = [frame for frame in theirs if not frame.filename.startswith("<")]
    return f"{theirs[-1].filename}:{theirs[-1].lineno}" if theirs else ""


def _first_line(error: Any) -> str:
    return (str(error) or type(error).__name__).splitlines()[0].rstrip(".")
