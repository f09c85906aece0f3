"""The oracle of source chunks: dense torch autograd in float64, which knows chunks and neither program nor worker.

Attention keeps plain masses and plain sums of weighted rows here, and their quotient is what a target sees: another
form of the same equations, fit for small scores alone.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
import scipy.sparse as sp
import torch
from torch import Tensor
from torch.nn import functional

from gnnplan.planner.model_spec import ModelSpec
from gnnplan.profiles.kernels.activation import dropout_key, keep_mask
from gnnplan.runtime.reference import INPUT_LAYER


@dataclass
class ChunkOracle:
    """A training by full-batch SGD.

    Args:
        matrix: CSR [N, N]; repeated entries are edges of their own.
        sources: bool [N] of every step in turn: who pushes.
        factors: of every step in turn, what gradients that flow back to its sources are multiplied by.
        follows: what is left of a sum's state moves with the mean row.
        fade, mass_fade: what is left of a state, or of a mass, counts so many times as much, beside what is pushed.
        orders: `aggregate_first` by layer's number; all others multiply first.
    """

    model: ModelSpec
    matrix: sp.csr_matrix
    x: np.ndarray
    y: np.ndarray
    train_mask: np.ndarray
    parameters: Mapping[str, Tensor]
    sources: Sequence[np.ndarray]
    seed: int
    rate: float
    follows: bool = True
    orders: Mapping[int, str] = field(default_factory=dict)
    factors: Sequence[float] = ()
    fade: float = 1.0
    mass_fade: float = 1.0

    def __post_init__(self) -> None:
        self.params = {
            name: value.detach().double().clone().requires_grad_() for name, value in self.parameters.items()
        }
        entries = self.matrix.tocoo()
        is_loop = entries.row == entries.col
        self.loops, self.edges = (_dense(entries, mask, entries.data) for mask in (is_loop, ~is_loop))
        ones = np.ones(len(entries.data))
        self.num_loops, self.count = (_dense(entries, mask, ones) for mask in (is_loop, ~is_loop))
        self.states: dict[str, Tensor] = {}
        self.means: dict[str, Tensor] = {}
        self.step, self.training, self.logits = 0, True, torch.empty(0)

    def train(self, num_steps: int) -> list[float]:
        """The loss of every step."""
        return [self._one() for _ in range(num_steps)]

    def evaluate(self) -> Tensor:
        """Logits of full-batch inference."""
        self.training = False
        with torch.no_grad():
            found = self._forward()
        self.training = True
        return found

    def _one(self) -> float:
        logits, chosen = self._forward(), torch.from_numpy(self.train_mask)
        y = torch.from_numpy(self.y)[chosen]
        loss = functional.cross_entropy(logits[chosen], y)
        grads = torch.autograd.grad(loss, list(self.params.values()))
        with torch.no_grad():
            for value, grad in zip(self.params.values(), grads, strict=True):
                value -= self.rate * grad
        self.step += 1
        return float(loss.detach())

    def _forward(self) -> Tensor:
        model, h = self.model, torch.from_numpy(self.x).double()
        self._constant = not (self.training and model.input_dropout)
        h = self._dropped(h, INPUT_LAYER, model.input_dropout)
        for layer in range(model.num_layers):
            h = getattr(self, f"_{model.kind}")(h, layer)
            h = h + self._parameter(layer, {"sage": "lin_l.bias"}.get(model.kind, "bias"))
            if layer < model.num_layers - 1:
                h = self._dropped(h.relu(), layer, model.dropout)
        return h

    def _parameter(self, layer: int, name: str) -> Tensor:
        return self.params[f"convs.{layer}.{name}"]

    def _dropped(self, h: Tensor, layer: int, probability: float) -> Tensor:
        if not probability or not self.training:
            return h
        key, (n, width) = dropout_key(self.seed, self.step, layer), h.shape
        return h * keep_mask(key, torch.arange(n)[:, None], torch.arange(width), width, probability) / (1 - probability)

    def _gcn(self, h: Tensor, layer: int) -> Tensor:
        return self._summed(h, layer, self._parameter(layer, "lin.weight").T)

    def _sage(self, h: Tensor, layer: int) -> Tensor:
        neighbors = self._summed(h, layer, self._parameter(layer, "lin_l.weight").T)
        return neighbors + h @ self._parameter(layer, "lin_r.weight").T

    def _summed(self, h: Tensor, layer: int, weight: Tensor) -> Tensor:
        if self.orders.get(layer) != "aggregate_first":
            return self._moving(h @ weight, f"{layer}")
        if layer == 0 and self._constant:
            return (self.edges + self.loops) @ h @ weight
        return self._moving(h, f"{layer}") @ weight

    def _pushing(self) -> tuple[Tensor, Tensor, float]:
        """Who pushes; [N, 1] what is left of each target's state (equation 6); and the gradients' factor."""
        now = self.step % len(self.sources)
        pushes = torch.from_numpy(self.sources[now])
        degree = self.count.sum(1)
        left = (1 - (self.count[:, pushes].sum(1) / degree.clamp(min=1))).clamp(0, 1)
        return pushes, left[:, None], self.factors[now] if self.factors else 1.0

    def _moving(self, z: Tensor, name: str) -> Tensor:
        """Equation 5."""
        if not self.training:
            return (self.edges + self.loops) @ z
        pushes, left, factor = self._pushing()
        sent = z[pushes]
        sent = factor * sent - (factor - 1) * sent.detach()
        old = self.states.get(name, torch.zeros(()))
        if self.follows:
            mean = z.detach().mean(0)
            old = old + self.edges.sum(1, keepdim=True) * (mean - self.means.get(name, torch.zeros(())))
            self.means[name] = mean
        chunk = self.edges[:, pushes] @ sent
        state = (chunk + self.fade * left * old) / (self.fade * left + 1 - left)
        self.states[name] = state.detach()
        return state + self.loops @ z

    def _gat(self, h: Tensor, layer: int) -> Tensor:
        """Equations 8 and 9, in masses and sums of weighted rows: products, or inputs where one head sums these."""
        heads, is_last = self.model.heads, layer == self.model.num_layers - 1
        weight = self._parameter(layer, "lin.weight").T
        p = (h @ weight).unflatten(1, (heads, -1))
        source, target = ((p * self._parameter(layer, f"att_{side}")).sum(2) for side in ("src", "dst"))
        sums_first = heads == 1 and self.orders.get(layer) == "aggregate_first"
        p = h[:, None] if sums_first else p
        mass = functional.leaky_relu(source[None] + target[:, None], 0.2).exp()  # [targets, sources, heads]
        own = self.num_loops[:, :, None] * mass
        if self.training:
            pushes, left, _ = self._pushing()
            total = (self.count[:, :, None] * mass)[:, pushes]
            rows = torch.einsum("tsh,shc->thc", total, p[pushes])
            old_total, old = self.states.get(f"{layer}", (torch.zeros(()), torch.zeros(())))
            if self.follows:
                mean = p.detach().mean(0)
                old = old + old_total[..., None] * (mean - self.means.get(f"{layer}", torch.zeros(())))
                self.means[f"{layer}"] = mean
            scale = 1 / (self.mass_fade * left + 1 - left)
            left = self.mass_fade * left
            total, rows = scale * (total.sum(1) + left * old_total), scale[..., None] * (rows + left[..., None] * old)
            self.states[f"{layer}"] = total.detach(), rows.detach()
        else:
            all_edges = self.count[:, :, None] * mass
            total, rows = all_edges.sum(1), torch.einsum("tsh,shc->thc", all_edges, p)
        z = (rows + torch.einsum("tsh,shc->thc", own, p)) / (total + own.sum(1))[..., None]
        z = z @ weight if sums_first else z
        return z.mean(1) if is_last else z.flatten(1)


def _dense(entries: sp.coo_matrix, mask: np.ndarray, values: np.ndarray) -> Tensor:
    parts = values[mask].astype(np.float64), (entries.row[mask], entries.col[mask])
    return torch.from_numpy(sp.coo_matrix(parts, shape=entries.shape).toarray())
