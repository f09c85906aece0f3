"""A module's forward as a list of calls, by torch.fx: layers stay whole, everything around them is taken apart."""

from __future__ import annotations

import inspect
import operator
import random
import sys
import traceback
from collections.abc import Callable, Collection
from functools import partialmethod
from pathlib import Path
from types import FrameType
from typing import Any

import numpy as np
import torch
import torch.fx
import torch_geometric
from torch_geometric.nn import MessagePassing

from gnnplan.planner.finish import EDGE_VALUES
from gnnplan.planner.models.kept_state import keeping_state
from gnnplan.planner.models.lines import line_of_class
from gnnplan.planner.relations import EDGE_TYPE
from gnnplan.profiles.errors import UserError

_WHOLE = ("torch_geometric.nn.norm", "torch_geometric.nn.dense", "torch_geometric.nn.aggr", "torch_geometric.nn.pool")
_JOINS = "torch_geometric.nn.models.jumping_knowledge"
_LIBRARIES = tuple(f"{Path(each).parent}/" for each in (torch.__file__, torch_geometric.__file__, __file__))
_LINE = "line"  # of a node's `meta`


IN_PLACE = (operator.iadd, operator.isub, operator.imul, operator.itruediv)
"""Operators of Python that change a tensor, by which fx's own proxies would make another."""


class _Proxy(torch.fx.Proxy):
    """A value that is known to be changed in place."""

    def _changed(self, by: Callable[..., Any], other: Any) -> torch.fx.Proxy:
        return self.tracer.create_proxy("call_function", by, (self, other), {})

    __iadd__ = partialmethod(_changed, operator.iadd)
    __isub__ = partialmethod(_changed, operator.isub)
    __imul__ = partialmethod(_changed, operator.imul)
    __itruediv__ = partialmethod(_changed, operator.itruediv)


class Tracer(torch.fx.Tracer):
    """Leaves layers, norms and joins whole, and knows where in the user's code each call stands."""

    def proxy(self, node: torch.fx.Node) -> torch.fx.Proxy:
        """A value of a call."""
        return _Proxy(node, self)

    def is_leaf_module(self, m: torch.nn.Module, module_qualified_name: str) -> bool:
        """Whether a module is one call."""
        where = type(m).__module__
        is_whole = isinstance(m, MessagePassing) or where.startswith(_WHOLE) or where == _JOINS
        return is_whole or super().is_leaf_module(m, module_qualified_name)

    def create_node(self, *args: Any, **kwargs: Any) -> torch.fx.Node:
        """A call, with the user's line of it."""
        node = super().create_node(*args, **kwargs)
        frame: FrameType | None = sys._getframe()
        while frame is not None and frame.f_code is not traced.__code__:  # beyond it is who called gnnplan
            if _is_users(frame.f_code.co_filename):
                node.meta[_LINE] = f"{frame.f_code.co_filename}:{frame.f_lineno}"
                break
            frame = frame.f_back
        if self.root.training and not torch.is_grad_enabled():
            raise UserError(
                f"{line_of(node, self.root)}: no_grad is not known: all that forward computes has gradients"
            )
        return node


def traced(module: torch.nn.Module, num_inputs: int, also: Collection[str] = ()) -> torch.fx.Graph:
    """The calls of a module's forward, in its present mode (training or evaluation).

    Args:
        num_inputs: leading arguments of forward that are given; all others stay at what they are by themselves.
        also: names of others that are given.

    Raises:
        UserError: what it does next depends on numbers, it draws some itself, or it takes another argument.
    """
    inputs = list(inspect.signature(module.forward).parameters.values())
    name = type(module).__name__
    if len(inputs) < num_inputs:
        raise UserError(f"{line_of_class(module)}: forward of {name} must take {_WORDS[num_inputs]}")
    others = [extra for extra in inputs[num_inputs:] if extra.name not in also]
    for extra in others:
        if extra.default is extra.empty:
            raise UserError(
                f"{line_of_class(module)}: forward of {name} also takes {extra.name!r}, and is given "
                f"{_WORDS[num_inputs]}{_but(extra.name)}; give it a default, or leave it out"
            )
    tracer, before = Tracer(), _generators()
    try:
        with torch.enable_grad(), keeping_state(module):
            found = tracer.trace(module, {extra.name: extra.default for extra in others})
    except UserError:
        raise
    except Exception as error:
        _refuse_edges(tracer, module)
        where = _where(traceback.extract_tb(error.__traceback__)) or line_of_class(module)
        raise UserError(
            f"{where}: {name} cannot be traced: {first_line(error)}; forward must make the same calls whatever the "
            f"numbers are"
        ) from error
    if _generators() != before:
        raise UserError(
            f"{line_of_class(module)}: forward of {name} draws random numbers itself, which would be drawn once for "
            f"all epochs; what is drawn anew is dropout's"
        )
    return found


def _generators() -> tuple[Any, ...]:
    """The states of what a forward may draw from."""
    _, keys, *others = np.random.get_state()  # noqa: NPY002 - by people's code
    return torch.get_rng_state().numpy().tobytes(), random.getstate(), np.asarray(keys).tobytes(), *others


def _but(name: str) -> str:
    """What is said of an argument that is not given."""
    if name not in EDGE_VALUES:
        return " alone"
    wanted = "a whole number from 0" if name == EDGE_TYPE else "finite numbers"
    return f" alone, for the graph has no {name} with {wanted} for every edge (make_undirected leaves none)"


def _refuse_edges(tracer: Tracer, module: torch.nn.Module) -> None:
    """Where the tracing ended, it often did since something was computed from the edges."""
    nodes = list(tracer.graph.nodes) if hasattr(tracer, "graph") else []
    inputs = [node for node in nodes if node.op == "placeholder"]
    for node in nodes:
        if len(inputs) > 1 and inputs[1] in node.all_input_nodes and node.op != "call_module":
            name = getattr(node.target, "__name__", str(node.target))
            raise UserError(f"{line_of(node, module)}: {name}: {WHOLE_GRAPH}")


WHOLE_GRAPH = "it computes from the whole edge_index, and every worker has the edges of its own vertices alone"
_WORDS = {1: "(x)", 2: "(x, edge_index)"}


def line_of(node: torch.fx.Node, module: torch.nn.Module) -> str:
    """`file:line` of a call in the user's code, of whom a library's module was called by."""
    return node.meta.get(_LINE) or line_of_class(module)


def _is_users(filename: str) -> bool:
    return not filename.startswith((*_LIBRARIES, "<"))


def _where(frames: traceback.StackSummary) -> str:
    theirs = [frame for frame in frames if _is_users(frame.filename)]
    return f"{theirs[-1].filename}:{theirs[-1].lineno}" if theirs else ""


def first_line(error: Any) -> str:
    """What an error says, in one line."""
    return (str(error) or type(error).__name__).splitlines()[0].rstrip(".")
