"""Modules and functions of torch that work row by row, in the words of a forward program."""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import torch
from torch import nn
from torch.nn import functional as F
from torch_geometric import nn as pyg

from gnnplan.planner.models.known_layers import NotSupportedError, only
from gnnplan.planner.models.vocabulary import Writer

_SELU = (1.6732632423543772, 1.0507009873554805, 1.0)  # Klambauer et al. 2017


def _vectors(module: Any, path: str) -> tuple[str, ...]:
    """Weight and bias of a norm."""
    if (module.weight is None) != (module.bias is None):
        raise NotSupportedError("a weight without a bias is not supported")
    return () if module.weight is None else (f"{path}.weight", f"{path}.bias")


def _linear(w: Writer, module: Any, path: str, x: str) -> str:
    return w.linear(x, f"{path}.weight", None if module.bias is None else f"{path}.bias")


def _batch_norm(w: Writer, module: Any, path: str, x: str) -> str:
    if isinstance(module, pyg.BatchNorm):
        only(module, allow_single_element=False)
        module, path = module.module, f"{path}.module"
    if module.track_running_stats and module.momentum is None:
        raise NotSupportedError("momentum = None is not supported; give it a number")
    momentum = module.momentum if module.track_running_stats else None
    vectors, first = _vectors(module, path), w.paths.get(id(module), path)
    return w.batch_norm(x, vectors, module.eps, path=first, momentum=momentum)


def _layer_norm(w: Writer, module: Any, path: str, x: str) -> str:
    if isinstance(module, pyg.LayerNorm):
        if module.mode != "node":
            raise NotSupportedError("mode = 'graph' normalizes over all rows together; take mode = 'node'")
    elif tuple(module.normalized_shape) != (w.width(x),):
        raise NotSupportedError(f"normalized_shape {tuple(module.normalized_shape)} is not the width {w.width(x)}")
    return w.layer_norm(x, _vectors(module, path), module.eps)


def _same(w: Writer, module: Any, path: str, x: str) -> str:
    return x


def _activation(name: str, *options: str) -> Callable[[Writer, Any, str, str], str]:
    """An activation that is a module, and the options of it that are its function's arguments."""
    return lambda w, module, path, x: FUNCTIONS[name](w, x, *(getattr(module, each) for each in options))


MODULES: dict[type, Callable[[Writer, Any, str, str], str]] = {
    nn.Linear: _linear,
    pyg.Linear: _linear,
    nn.BatchNorm1d: _batch_norm,
    pyg.BatchNorm: _batch_norm,
    nn.LayerNorm: _layer_norm,
    pyg.LayerNorm: _layer_norm,
    nn.Identity: _same,
    nn.Dropout: lambda w, module, path, x: w.dropout(x, module.p),
    nn.ReLU: _activation("relu"),
    nn.ReLU6: _activation("relu6"),
    nn.LeakyReLU: _activation("leaky_relu", "negative_slope"),
    nn.ELU: _activation("elu", "alpha"),
    nn.SELU: _activation("selu"),
    nn.CELU: _activation("celu", "alpha"),
    nn.GELU: _activation("gelu", "approximate"),
    nn.SiLU: _activation("silu"),
    nn.Tanh: _activation("tanh"),
    nn.Sigmoid: _activation("sigmoid"),
    nn.Softplus: _activation("softplus", "beta", "threshold"),
    nn.Hardtanh: _activation("hardtanh", "min_val", "max_val"),
}
"""Modules on rows alone. A class of one's own that inherits from one of these is not that one."""


def _elu(w: Writer, x: str, alpha: float = 1.0, inplace: bool = False) -> str:
    return w.function(x, "elu", float(alpha), 1.0, 1.0)


def _celu(w: Writer, x: str, alpha: float = 1.0, inplace: bool = False) -> str:
    return w.function(x, "elu", float(alpha), 1.0, 1.0 / alpha)


def _leaky_relu(w: Writer, x: str, negative_slope: float = 0.01, inplace: bool = False) -> str:
    return w.function(x, "leaky_relu", float(negative_slope))


def _softplus(w: Writer, x: str, beta: float = 1.0, threshold: float = 20.0) -> str:
    return w.function(x, "softplus", float(beta), float(threshold))


def _hardtanh(w: Writer, x: str, min_val: float = -1.0, max_val: float = 1.0, inplace: bool = False) -> str:
    return w.function(x, "hardtanh", float(min_val), float(max_val))


def _dropout(w: Writer, x: str, p: float = 0.5, training: bool = True, inplace: bool = False) -> str:
    if training and p and not w.training:
        raise NotSupportedError("it drops in evaluation too; give it training = self.training")
    return w.dropout(x, p if training else 0.0)


def _plain(name: str) -> Callable[..., str]:
    return lambda w, x, inplace=False: w.function(x, name)


FUNCTIONS: dict[str, Callable[..., str]] = {
    "relu": _plain("relu"),
    "relu_": _plain("relu"),
    "relu6": lambda w, x, inplace=False: w.function(x, "hardtanh", 0.0, 6.0),
    "leaky_relu": _leaky_relu,
    "elu": _elu,
    "selu": lambda w, x, inplace=False: w.function(x, "elu", *_SELU),
    "celu": _celu,
    "gelu": lambda w, x, approximate="none": w.function(x, "gelu", approximate),
    "silu": _plain("silu"),
    "tanh": _plain("tanh"),
    "sigmoid": _plain("sigmoid"),
    "softplus": _softplus,
    "hardtanh": _hardtanh,
    "dropout": _dropout,
    "contiguous": lambda w, x: x,
}
"""Functions and methods on rows alone, by torch's names, with torch's arguments."""


def _checked(w: Writer, x: str, y: str) -> None:
    if w.width(x) != w.width(y):
        raise NotSupportedError(f"rows of widths {w.width(x)} and {w.width(y)} do not meet element by element")


def _add(w: Writer, x: Any, y: Any, *, alpha: float = 1) -> str:
    if isinstance(x, Rows) and isinstance(y, Rows):
        _checked(w, x.name, y.name)
        return w.add(x.name, y.name, (1, number(alpha)))
    if isinstance(x, Rows) and _is_zero(y):
        return x.name
    if isinstance(y, Rows) and _is_zero(x):
        return w.scale(y.name, number(alpha))
    raise NotSupportedError("rows plus a number have no operator; add a bias in a Linear")


def _is_zero(value: Any) -> bool:
    """As `sum` begins."""
    return isinstance(value, int | float) and value == 0


def _subtract(w: Writer, x: Any, y: Any, *, alpha: float = 1) -> str:
    return _add(w, x, y, alpha=-number(alpha))


def _multiply(w: Writer, x: Any, y: Any) -> str:
    if isinstance(x, Rows) and isinstance(y, Rows):
        _checked(w, x.name, y.name)
        return w.product(x.name, y.name)
    rows, factor = (x, y) if isinstance(x, Rows) else (y, x)
    return w.scale(rows.name, number(factor))


def _divide(w: Writer, x: Any, y: Any) -> str:
    if not isinstance(x, Rows) or isinstance(y, Rows):
        raise NotSupportedError("only rows over a number have an operator")
    return w.scale(x.name, 1 / number(y))


def _cat(w: Writer, tensors: Sequence[Any], dim: int = 0) -> str:
    if dim not in (1, -1):
        raise NotSupportedError(f"dim = {dim} puts rows below rows; only dim = 1 joins columns")
    if not all(isinstance(each, Rows) for each in tensors):
        raise NotSupportedError(
            "only rows of vertices are put side by side; join what stays the same into the features"
        )
    return w.concat([each.name for each in tensors])


class Rows:
    """A value of a program, as a traced call has it among its arguments."""

    def __init__(self, name: str) -> None:
        self.name = name


Step = Callable[[Writer, str], str]
"""Writes what is made of a value row by row."""
OF_MODES = (nn.Dropout, nn.BatchNorm1d, pyg.BatchNorm)
"""Modules that do something else in training than in evaluation."""


def is_step(module: nn.Module) -> bool:
    """Whether a module works on rows of edges as on rows of vertices. Dropout and norms over columns know vertices."""
    return type(module) in MODULES and not isinstance(module, OF_MODES)


class Edges:
    """The graph's `edge_index`, of which every worker has its own part alone."""


class OnEdges:
    """A weight, features or the type of every edge of the graph, as a traced call has them among its arguments.

    Which edges a worker has is known where a layer reads them, so what is made of them row by row is written there.

    Args:
        name: of the graph's own ones.
        width: columns of these.
        is_flat: the module is given a vector, an entry for every edge.
        steps: by which it is made of these, one after the other.
        made_on: the block on whose edges a layer made them (empty: they are the graph's).
        num_types: numbers below this one stand for types (0: they are no types).
    """

    def __init__(
        self,
        name: str,
        width: int,
        *,
        is_flat: bool,
        steps: tuple[Step, ...] = (),
        made_on: str = "",
        num_types: int = 0,
    ) -> None:
        self.name, self.width, self.is_flat, self.steps, self.made_on = name, width, is_flat, steps, made_on
        self.num_types = num_types

    @classmethod
    def of(cls, name: str, values: np.ndarray) -> OnEdges:
        """Those of a graph: [E] or [E, D]."""
        width, is_types = values.shape[1] if values.ndim > 1 else 1, values.dtype.kind in "iu"
        num_types = int(values.max(initial=0)) + 1 if is_types else 0
        return cls(name, width, is_flat=values.ndim == 1, num_types=num_types)

    @property
    def is_weight(self) -> bool:
        """Whether it is the graph's own weights of edges, of which aggregation matrices are made."""
        return self.name == "edge_weight" and self.is_flat

    def then(self, step: Step) -> OnEdges:
        """What a step makes of every row."""
        return OnEdges(self.name, self.width, is_flat=False, steps=(*self.steps, step), made_on=self.made_on)


EDGES = Edges()


def number(value: Any) -> float:
    """A number that is known before training."""
    if isinstance(value, torch.Tensor) and value.numel() == 1 and not value.requires_grad:
        return float(value)
    if isinstance(value, int | float):
        return float(value)
    raise NotSupportedError("only a number that is known before training has an operator here")


JOINS: dict[Any, Callable[..., str]] = {
    operator.add: _add,
    operator.iadd: _add,
    torch.add: _add,
    "add": _add,
    operator.sub: _subtract,
    operator.isub: _subtract,
    torch.sub: _subtract,
    operator.mul: _multiply,
    operator.imul: _multiply,
    torch.mul: _multiply,
    "mul": _multiply,
    operator.truediv: _divide,
    operator.itruediv: _divide,
    operator.neg: lambda w, x: w.scale(x.name, -1.0),
    torch.cat: _cat,
}
"""Functions of several values."""

NAMED: dict[Any, str] = {
    function: name for name in FUNCTIONS for place in (F, torch) if (function := getattr(place, name, None)) is not None
}
"""The name of a function of one value, by the function."""
