"""A user's module trained by PyG alone in one process: what every plan of it equals."""

from __future__ import annotations

import inspect
from copy import deepcopy
from typing import Any

import torch
from torch import nn
from torch.nn import functional
from torch.overrides import TorchFunctionMode

from gnnplan.planner.graph import Graph
from gnnplan.planner.training_spec import TrainingSpec
from gnnplan.profiles.kernels.activation import dropout_key, keep_mask
from gnnplan.runtime.reference import build_optimizer, build_schedule, clip, dense_features, training_loss


class SameDropout(TorchFunctionMode):
    """Drops what the engine drops: every call of dropout has a stream of its own, in the order of the calls."""

    def __init__(self, seed: int, epoch: int) -> None:
        super().__init__()
        self._seed, self._epoch, self._calls = seed, epoch, 0

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        """Another mask for dropout, and every other function as it is."""
        kwargs = kwargs or {}
        if func is not functional.dropout:
            return func(*args, **kwargs)
        bound = dict(zip(("input", "p", "training"), args, strict=False)) | kwargs
        x, probability = bound["input"], bound.get("p", 0.5)
        if not bound.get("training", True) or not probability:
            return x
        key = dropout_key(self._seed, self._epoch, self._calls)
        self._calls += 1
        rows, columns = torch.arange(len(x))[:, None], torch.arange(x.shape[1])
        kept = keep_mask(key, rows, columns, x.shape[1], probability)
        return x * kept.to(x.dtype) / (1 - probability)


def on_edges(module: nn.Module, graph: Graph, dtype: torch.dtype) -> dict[str, torch.Tensor]:
    """Weights, features and types of edges that a module's forward asks for."""
    names = inspect.signature(module.forward).parameters
    asked = {name: torch.from_numpy(each) for name, each in graph.edge_values.items() if name in names}
    return {name: each.to(dtype) if each.is_floating_point() else each for name, each in asked.items()}


def train_module(
    module: nn.Module, graph: Graph, training: TrainingSpec, dtype: torch.dtype = torch.float32
) -> tuple[nn.Module, list[float]]:
    """A trained copy of a module on (x, edge_index), and the loss of every epoch, by autograd in a precision."""
    module = deepcopy(module).to(dtype).train()
    x, y = torch.from_numpy(dense_features(graph)).to(dtype), torch.from_numpy(graph.y)
    y = y.to(dtype) if y.is_floating_point() else y
    edge_index, mask = torch.from_numpy(graph.edge_index).long(), torch.from_numpy(graph.train_mask)
    also = on_edges(module, graph, dtype)
    optimizer, losses = build_optimizer(module.parameters(), training), []
    schedule = build_schedule(optimizer, training)
    for epoch in range(training.epochs):
        optimizer.zero_grad()
        with SameDropout(training.seed, epoch):
            loss = training_loss(module(x, edge_index, **also), y, mask, training.loss, graph.pairs)
        loss.backward()
        clip(module.parameters(), training)
        optimizer.step()
        schedule.step()
        losses.append(float(loss.detach()))
    return module, losses
