"""The oracle of modules in chunks: PyG's own layers under autograd, whose sums are taken apart where messages meet.

It knows PyG's `propagate`, which chunk pushes, and the equations; no program and no worker. Attention keeps plain
masses and plain sums of weighted rows, fit for small scores alone.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any
from unittest import mock

import numpy as np
import torch
from torch import Tensor, nn
from torch_geometric import nn as pyg
from torch_geometric.nn import MessagePassing
from torch_geometric.nn.conv import gat_conv

ON_EDGES = ("edge_weight", "alpha", "norm")


@dataclass
class Moving:
    """The states of all sums of a module.

    Args:
        sources: bool [N] of every step in turn: who pushes.
        mass_fade: what is left of a mass of attention counts so many times as much beside what is pushed; scaled.
        step: the present one; None: all push, and no state is touched.
    """

    sources: Sequence[np.ndarray]
    mass_fade: float = 1.0
    step: int | None = None
    states: dict[str, Any] = field(default_factory=dict)
    _calls: int = 0

    def begin(self, step: int | None) -> None:
        """Sums are known by their order in a step."""
        self.step, self._calls = step, 0

    def propagate(self, layer: MessagePassing, whole: Any, edge_index: Tensor, x: Any, **others: Any) -> Tensor:
        """What stands for a layer's `propagate`."""
        if self.step is None:
            return self._weighted(whole, edge_index, x, others)
        name, self._calls = f"{self._calls}", self._calls + 1
        (source, target), n = edge_index, len(x[0] if isinstance(x, tuple) else x)
        is_loop, pushes = source == target, torch.from_numpy(self.sources[self.step % len(self.sources)])
        of_chunk = ~is_loop & pushes[source]
        # Sums have a neighbour once, however many edges come from it; attention has every edge by itself.
        each = torch.ones(len(source)) if isinstance(layer, pyg.GATConv) else _firsts(edge_index)
        count = lambda mask: torch.zeros(n).double().index_add(0, target[mask], each[mask].double())[:, None]  # noqa: E731
        left = (1 - count(of_chunk) / count(~is_loop).clamp(min=1)).clamp(0, 1)

        def over(mask: Tensor, what: Any) -> Tensor:
            kept = {key: each[mask] if key in ON_EDGES and each is not None else each for key, each in others.items()}
            found = whole(edge_index[:, mask], x=what, **kept)
            if getattr(layer, "aggr", "") != "mean":
                return found
            every = torch.bincount(target, minlength=n).clamp(min=1)[:, None]
            return found * torch.bincount(target[mask], minlength=n)[:, None] / every

        if isinstance(layer, pyg.GATConv):
            mass = lambda mask: torch.zeros(n, layer.heads).double().index_add(0, target[mask], others["alpha"][mask])  # noqa: E731
            old_mass, old, last = self.states.get(name, (torch.zeros(()), torch.zeros(()), torch.zeros(())))
            mean = (x[0] if isinstance(x, tuple) else x).detach().mean(0)
            scale = 1 / (self.mass_fade * left + 1 - left)
            old, left = old + old_mass[..., None] * (mean - last), self.mass_fade * left
            total = scale * (mass(of_chunk) + left * old_mass)
            rows = scale[:, :, None] * (over(of_chunk, x) + left[:, :, None] * old)
            self.states[name] = total.detach(), rows.detach(), mean
            whole_mass = (total + mass(is_loop))[:, :, None]
            found = (rows + over(is_loop, x)) / whole_mass.clamp(min=1e-30)
            # Nobody has pushed yet: the mean row stands for neighbours, where there are any.
            return torch.where(whole_mass == 0, mean * (count(~is_loop) > 0)[..., None], found)
        rows = (x[0] if isinstance(x, tuple) else x).detach()
        old, last = self.states.get(name, (torch.zeros(()), torch.zeros(())))
        followed = old + over(~is_loop, (rows.mean(0) - last).expand_as(rows))
        state = over(of_chunk, x) + left * followed
        self.states[name] = state.detach(), rows.mean(0)
        return state + over(is_loop, x)

    def _weighted(self, whole: Any, edge_index: Tensor, x: Any, others: dict) -> Tensor:
        if others.get("alpha") is None:
            return whole(edge_index, x=x, **others)
        alpha, target = others["alpha"], edge_index[1]
        total = torch.zeros(int(target.max()) + 1, alpha.shape[1]).to(alpha).index_add(0, target, alpha)
        return whole(edge_index, x=x, **{**others, "alpha": alpha / total[target]})


def _firsts(edge_index: Tensor) -> Tensor:
    """[E]: 1 at the first of equal edges, 0 at the others."""
    _, first = np.unique(edge_index.numpy(), axis=1, return_index=True)
    return torch.zeros(edge_index.shape[1]).index_fill(0, torch.from_numpy(first), 1)


@contextmanager
def moving(module: nn.Module, sources: Sequence[np.ndarray], mass_fade: float = 1.0) -> Iterator[Moving]:
    """While it lasts, sums of the module's layers move."""
    found = Moving(sources, mass_fade)
    for layer in module.modules():
        if isinstance(layer, MessagePassing):
            whole = layer.propagate
            layer.propagate = lambda edge_index, layer=layer, whole=whole, x=None, **others: found.propagate(  # type: ignore[method-assign]
                layer, whole, edge_index, x, **others
            )
    with mock.patch.object(gat_conv, "softmax", lambda score, *_others, **_named: score.exp()):
        yield found
    for layer in module.modules():
        if isinstance(layer, MessagePassing):
            del layer.propagate
