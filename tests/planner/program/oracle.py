"""The oracle of every program: dense torch autograd in float64, with neither a program nor an exchange.

Every worker sees every vertex through its labels: its own rows where it holds or makes them, the owner's where they
are sent, and where they are kept or late what came last. Gradients of rows that are not returned in this epoch are
those that were returned last. An edge to a dropped row is not there.

Of the product it knows the matrices, the labels' codes and the function that drops; W workers stand in the first
dimension of what they see.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional

from gnnplan.planner.model_spec import ModelSpec
from gnnplan.planner.program.labels import Label
from gnnplan.planner.training_spec import TrainingSpec
from gnnplan.profiles.kernels.activation import dropout_key, keep_mask
from gnnplan.runtime.reference import INPUT_LAYER, build_optimizer

Arrives = Callable[[Label, int, int, int, int, bool], bool]
"""(label, epoch, level, sender, receiver, on the way back) -> whether a message comes in that epoch."""


@dataclass
class World:
    """What is trained on, and who sees what.

    Args:
        matrix: [N, N] dense, with repeated entries added up.
        part: int [N], owners.
        labels: [levels, W, N] codes.
        orders: `aggregate_first` by layer's number; all others multiply first.
        arrives: which messages of kept and late rows come when.
    """

    matrix: np.ndarray
    x: np.ndarray
    y: np.ndarray
    train_mask: np.ndarray
    part: np.ndarray
    labels: np.ndarray
    orders: Mapping[int, str] = field(default_factory=dict)
    arrives: Arrives = lambda *_: True


@dataclass
class Epoch:
    """What one epoch had: its loss, the gradient of every parameter, and the logits that the owners have."""

    loss: Tensor
    grads: dict[str, Tensor]
    logits: Tensor


class Oracle:
    """Trains a model as all workers of a world together would."""

    def __init__(self, model: ModelSpec, world: World, parameters: Mapping[str, Tensor], *, seed: int) -> None:
        self.model, self.world, self.seed = model, world, seed
        self.params = {name: value.detach().double().clone().requires_grad_() for name, value in parameters.items()}
        self.matrix, self.x = torch.from_numpy(world.matrix).double(), torch.from_numpy(world.x).double()
        labels = torch.from_numpy(world.labels.astype(np.int64))
        self.workers = range(labels.shape[1])
        self.labels = [*labels, torch.zeros_like(labels[0])]  # nobody labels logits
        part = torch.from_numpy(world.part)
        self.owner = part
        self.own = torch.stack([part == worker for worker in self.workers])
        self.epoch, self.training = 0, True
        self._rows: dict[tuple, Tensor] = {}  # what came last, by (level, value)
        self._grads: dict[tuple, Tensor] = {}  # what was returned last
        self._copies: dict[tuple, tuple[Tensor, Tensor]] = {}
        self._returned_before = torch.zeros((), dtype=torch.float64)

    def train(self, training: TrainingSpec) -> list[Epoch]:
        """Every epoch's loss, gradients and logits; `params` are the trained ones afterwards."""
        optimizer = build_optimizer(self.params.values(), training)
        return [self._step(optimizer, epoch) for epoch in range(training.epochs)]

    def evaluate(self) -> Tensor:
        """Logits without dropout, when everything arrives."""
        arrives, self.world.arrives, self.training = self.world.arrives, lambda *_: True, False
        kept, self._rows = self._rows, dict(self._rows)
        with torch.no_grad():
            logits = self._full(self._forward())
        self.world.arrives, self.training, self._rows = arrives, True, kept
        return logits

    def _step(self, optimizer: torch.optim.Optimizer, epoch: int) -> Epoch:
        self.epoch, self._copies = epoch, {}
        self._returned_before = torch.zeros((), dtype=torch.float64)
        logits = self._full(self._forward())
        loss = self._loss(logits)
        optimizer.zero_grad()
        (loss + self._returned_before).backward()
        for key, (copy, returned) in self._copies.items():
            grad = torch.zeros_like(copy) if copy.grad is None else copy.grad
            self._grads[key] = torch.where(returned, grad, self._grads.get(key, torch.zeros_like(grad)))
        grads = {name: value.grad.clone() for name, value in self.params.items()}
        optimizer.step()
        return Epoch(loss.detach(), grads, logits.detach())

    def _loss(self, logits: Tensor) -> Tensor:
        chosen = torch.from_numpy(self.world.train_mask)
        y = torch.from_numpy(self.world.y)[chosen]
        if y.dim() == 2:
            return functional.binary_cross_entropy_with_logits(logits[chosen], y.double())
        return functional.cross_entropy(logits[chosen], y)

    # What workers see

    def _full(self, values: Tensor) -> Tensor:
        """[N, C]: every row as its owner has it."""
        return (self.own[:, :, None] * values).sum(0)

    def _seen(self, values: Tensor, level: int, value: str) -> Tensor:
        """[W, N, C]: a value at a level, as every worker sees it; `value` tells it from others of that level."""
        full, label = self._full(values), self.labels[level]
        mine = self.own | (label == Label.MADE)
        seen = full.expand_as(values)
        for code in (Label.KEPT, Label.SHARED, Label.LATE):
            rows = (label == code) & ~self.own
            if rows.any():
                seen = self._stale(seen, full, rows, level, code, value)
        return torch.where(mine[:, :, None], values, seen)

    def _stale(self, seen: Tensor, full: Tensor, rows: Tensor, level: int, code: Label, value: str) -> Tensor:
        """What is seen, with some rows those that came last."""
        key, rows = (level, code, value), rows[:, :, None]
        came, returned = (self._comes(code, level, back=back)[:, :, None] for back in (False, True))
        before = self._rows.get(key, torch.zeros_like(seen))
        self._rows[key] = torch.where(came, full.detach(), before)
        copy = full + (self._rows[key] - full).detach()
        if not copy.requires_grad:
            return torch.where(rows, copy, seen)
        copy.retain_grad()
        self._copies[key] = copy, returned
        old = self._grads.get(key, torch.zeros_like(copy))
        self._returned_before = self._returned_before + (rows * ~returned * old * (full - full.detach())).sum()
        return torch.where(rows, torch.where(returned, copy, copy.detach()), seen)

    def _comes(self, code: Label, level: int, *, back: bool) -> Tensor:
        """[W, N]: whether a vertex's row comes to a worker in this epoch; `back`: whether its gradient is returned."""

        def one(owner: int, worker: int) -> bool:
            ends = (worker, owner) if back else (owner, worker)
            return self.world.arrives(code, self.epoch, level, *ends, back)

        table = torch.tensor([[one(owner, worker) for owner in self.workers] for worker in self.workers])
        return table[:, self.owner]

    def _edges(self, level: int) -> Tensor:
        """[W, N, N]: the matrix without the edges that a worker dropped."""
        dropped = (self.labels[level] == Label.DROPPED) & ~self.own
        return self.matrix * ~dropped[:, None, :]

    def _gathered(self, values: Tensor, level: int, value: str) -> Tensor:
        return self._edges(level) @ self._seen(values, level, value)

    @property
    def _draws_inputs(self) -> bool:
        return self.training and bool(self.model.input_dropout)

    def _has_what_it_makes(self, level: int) -> bool:
        """Whether all that workers have of the next level is gathered at this one: what is made of inputs is theirs."""
        held, next_held = (self.own | (self.labels[at] == Label.MADE) for at in (level, level + 1))
        gathered = (self._edges(level) * next_held[:, :, None]).ne(0).any(1)
        return bool((~next_held | gathered | held).all())

    # Models

    def _forward(self) -> Tensor:
        h, model = self.x.expand(len(self.workers), *self.x.shape), self.model
        h = self._dropped(h, INPUT_LAYER, model.input_dropout)
        for layer in range(model.num_layers):
            h = getattr(self, f"_{model.kind}")(h, layer, self._level(layer))
            h = h + self._parameter(layer, {"sage": "lin_l.bias", "gin": "nn.lins.1.bias"}.get(model.kind, "bias"))
            if layer < model.num_layers - 1:
                h = self._dropped(h.relu(), layer, model.dropout)
        return h

    def _level(self, layer: int) -> int:
        return layer * (self.model.num_hops if self.model.kind == "tagcn" else 1)

    def _parameter(self, layer: int, name: str) -> Tensor:
        return self.params[f"convs.{layer}.{name}"]

    def _dropped(self, h: Tensor, layer: int, probability: float) -> Tensor:
        if not probability or not self.training:
            return h
        key, (n, width) = dropout_key(self.seed, self.epoch, layer), h.shape[1:]
        return h * keep_mask(key, torch.arange(n)[:, None], torch.arange(width), width, probability) / (1 - probability)

    def _gcn(self, h: Tensor, layer: int, level: int) -> Tensor:
        return self._filter(h, layer, level, {1: "lin.weight"})

    def _sage(self, h: Tensor, layer: int, level: int) -> Tensor:
        return self._filter(h, layer, level, {0: "lin_r.weight", 1: "lin_l.weight"})

    def _tagcn(self, h: Tensor, layer: int, level: int) -> Tensor:
        return self._filter(h, layer, level, {hop: f"lins.{hop}.weight" for hop in range(self.model.num_hops + 1)})

    def _gin(self, h: Tensor, layer: int, level: int) -> Tensor:
        z = self._filter(h, layer, level, {1: "nn.lins.0.weight"}) + self._parameter(layer, "nn.lins.0.bias")
        return z.relu() @ self._parameter(layer, "nn.lins.1.weight").T

    def _filter(self, h: Tensor, layer: int, level: int, names: dict[int, str]) -> Tensor:
        weights = {hop: self._parameter(layer, name).T for hop, name in names.items()}
        if self.world.orders.get(layer) == "aggregate_first":
            return self._aggregated_first(h, level, weights)
        return self._multiplied_first(h, level, weights)

    def _multiplied_first(self, h: Tensor, level: int, weights: dict[int, Tensor]) -> Tensor:
        """Horner's rule: products of lower hops are added on the way, seen from the rows they are added to."""
        top = max(weights)
        z = h @ weights[top]
        for hop in range(top - 1, -1, -1):
            z = self._gathered(z, level + top - 1 - hop, "filtered")
            if hop in weights:
                z = z + self._seen(h @ weights[hop], level, f"product of hop {hop}")
        return z

    def _aggregated_first(self, h: Tensor, level: int, weights: dict[int, Tensor]) -> Tensor:
        """Products of lower hops are added one after the other, each sum seen from the next hop's rows."""
        z = h @ weights[0] if 0 in weights else None
        for hop in range(1, max(weights) + 1):
            h = self._gathered(h, level + hop - 1, "rows")
            if hop in weights:
                product, at = h @ weights[hop], level + hop - 1
                is_remade = at == 0 and hop == 1 and not self._draws_inputs and self._has_what_it_makes(at)
                if z is not None:
                    product = product + (z if is_remade else self._seen(z, at, "sum so far"))
                z = product
        assert z is not None
        return z

    def _gat(self, h: Tensor, layer: int, level: int) -> Tensor:
        """p = XW^T travels, and so do scores of targets; scores of sources are made of the p that came.

        Where one head sums rows first, X travels in its place.
        """
        heads, is_last = self.model.heads, layer == self.model.num_layers - 1
        matrix = self._parameter(layer, "lin.weight").T
        p, sums_first = h @ matrix, heads == 1 and self.world.orders.get(layer) == "aggregate_first"

        def by_head(values: Tensor) -> Tensor:
            return values.unflatten(2, (heads, -1))

        def scored(values: Tensor, side: str) -> Tensor:
            return (by_head(values) * self._parameter(layer, f"att_{side}")).sum(3)

        seen = self._seen(h, level, "rows") @ matrix if sums_first else self._seen(p, level, "p")
        source, target = scored(seen, "src"), scored(p, "dst")
        is_remade = sums_first and level == 0 and not self._draws_inputs and self._has_what_it_makes(level)
        target = target if is_remade else self._seen(target, level, "scores of targets")
        count = self._edges(level)[..., None]  # [W, targets, sources, 1]: a repeated edge counts as often
        score = functional.leaky_relu(source[:, None] + target[:, :, None], 0.2)
        top = score.masked_fill(count == 0, -torch.inf).amax(2, keepdim=True).detach()
        top = top.masked_fill(top.isinf(), 0)  # a target that lost all its edges
        weight = count * (score - top).masked_fill(count == 0, -torch.inf).exp()
        alpha = weight / weight.sum(2, keepdim=True).clamp(min=1e-300)
        z = torch.einsum("wtsh,wshc->wthc", alpha, by_head(seen))
        return z.mean(2) if is_last else z.flatten(2)
