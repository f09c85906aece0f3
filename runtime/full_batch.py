"""Full-batch training: one step per epoch on the mean loss over all training vertices."""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch
import torch.distributed as dist
from torch import Tensor

from gnnplan.planner.schedule import Category
from gnnplan.planner.shard import Shard
from gnnplan.profiles.kernels import pool
from gnnplan.profiles.kernels.loss import loss_and_grad
from gnnplan.runtime.metrics import hits
from gnnplan.runtime.model import WorkerModel
from gnnplan.runtime.recorder import Recorder
from gnnplan.runtime.reference import build_optimizer


class MaskedLoss(torch.autograd.Function):
    """Sum of the loss over the local training vertices, divided by the GLOBAL number of them."""

    @staticmethod
    def forward(ctx, recorder: Recorder, logits: Tensor, rows: Tensor, y: Tensor, denominator: int):
        """logits [n, C], rows int64 [t], y [t] or [t, C]; loss and its gradient in one task."""
        with recorder.span("loss"):
            loss, grad = loss_and_grad(logits, rows, y, denominator)
        ctx.save_for_backward(grad)
        return loss

    @staticmethod
    def backward(ctx, grad_loss: Tensor):
        """The gradient was made forward; the loss itself is never scaled."""
        return None, ctx.saved_tensors[0], None, None, None


@dataclass
class EpochRecord:
    """One measured epoch of one worker, seconds on its clock.

    Args:
        epoch: whose step it took part in.
        begun: the epoch it computed, an earlier one where the others went on without it (None: the same).
        num_members: workers that took part (0: all).
        oldest: epochs, age of the oldest halo rows or gradients used.
        adjusted: what was decided after it about the rows to make, fields of `gnnplan.planner.trace.Adjusted`
            (None: nothing).
    """

    epoch: int
    start_s: float
    end_s: float
    loss: float
    spans: list[tuple[str, Category, float, float]] = field(default_factory=list)
    sent_bytes: int = 0
    begun: int | None = None
    num_members: int = 0
    oldest: int = 0
    adjusted: dict[str, Any] | None = None


class FullBatchTrainer:
    """Trains one worker's shard in step with the others.

    Args:
        model: what to train, on the rows of the shard.
        sleeps_s: seconds that the weather has this worker sleep in each epoch, half before each pass.
    """

    def __init__(self, model: WorkerModel, shard: Shard, *, sleeps_s: np.ndarray | None = None) -> None:
        self.model, self.recorder = model, model.recorder
        device = self.recorder.device
        self.parameters = list(self.model.net.parameters())
        self.optimizer = build_optimizer(self.parameters, model.job.training, fused=True)
        self.num_workers = shard.num_workers
        self.sleeps_s = sleeps_s
        self.num_parameters = sum(map(torch.Tensor.numel, self.parameters))
        y = torch.from_numpy(shard.y)
        self.y = y.to(device)
        self.masks = {
            name: torch.from_numpy(getattr(shard, f"{name}_mask")).to(device) for name in ("train", "val", "test")
        }
        self.train_rows = self.masks["train"].nonzero()[:, 0]
        self.train_y = self.y[self.train_rows]
        self.denominator = shard.num_train * (shard.num_classes if y.dim() == 2 else 1)

    @property
    def net(self) -> torch.nn.Module:
        """The PyG model whose parameters are trained."""
        return self.model.net

    def train_epoch(self, epoch: int, *, traced: bool) -> EpochRecord:
        """One forward, backward and optimizer step over the whole graph."""
        start_s = self.recorder.begin(traced)
        with self.recorder.span("zero_grad", "host"):
            self.optimizer.zero_grad(set_to_none=True)
        self._sleep(epoch)
        logits = self.model.forward(epoch=epoch, training=True)
        loss = MaskedLoss.apply(self.recorder, logits, self.train_rows, self.train_y, self.denominator)
        del logits
        self._sleep(epoch)
        loss.backward()
        loss = self._reduce(loss.detach())
        with self.recorder.span("optimizer"):
            self.optimizer.step()
        end_s = self.recorder.end()
        return EpochRecord(epoch, start_s, end_s, float(loss), self.recorder.spans, self.recorder.sent_bytes)

    def close(self) -> None:
        """Ends what training needed; nothing, where workers are always in step."""

    def _sleep(self, epoch: int) -> None:
        """Half of what the weather has this worker sleep in an epoch."""
        if self.sleeps_s is not None and self.sleeps_s[epoch]:
            time.sleep(float(self.sleeps_s[epoch]) / 2)

    def _reduce(self, loss: Tensor) -> Tensor:
        """Sums gradients and loss over the workers in one all-reduce."""
        if self.num_workers == 1:
            return loss
        with self.recorder.span("reduce/flatten"):
            flat = self._flattened(loss)
        with self.recorder.span("reduce", "communicate"):
            dist.all_reduce(flat)
        with self.recorder.span("reduce/unflatten"):
            return self._unflattened(flat)

    def _flattened(self, loss: Tensor) -> Tensor:
        """All gradients and the loss behind them, [P + 1]; then what workers tell each other besides."""
        parts = [(p.grad if p.grad is not None else torch.zeros_like(p)).reshape(-1) for p in self.parameters]
        told = self._told()
        out = pool.empty(loss.device, self.num_parameters + 1 + sum(map(torch.Tensor.numel, told)))
        return torch.cat([*parts, loss.reshape(1), *told], out=out)

    def _unflattened(self, flat: Tensor) -> Tensor:
        """Takes the gradients out of what `_flattened` gave, and returns the loss."""
        sizes = [*map(torch.Tensor.numel, self.parameters), flat.numel() - self.num_parameters]
        for parameter, part in zip(self.parameters, flat.split(sizes)):
            parameter.grad = part.view_as(parameter)
        return flat[self.num_parameters]

    def _told(self) -> list[Tensor]:
        """Vectors that are added up over the workers along with the gradients."""
        return []

    @torch.no_grad()
    def logits(self) -> Tensor:
        """Logits [n, C] of the local rows with the current parameters, without dropout."""
        self.recorder.active = False
        return self.model.forward(epoch=0, training=False)

    def evaluate(self) -> dict[str, float]:
        """Share right (micro-F1 for multi-label jobs) over the whole graph, per mask that is not empty."""
        logits = self.logits()
        counts = torch.stack([hits(logits[mask], self.y[mask]) for mask in self.masks.values()])
        if self.num_workers > 1:
            dist.all_reduce(counts)
        return {name: float(hits / total) for name, (hits, total) in zip(self.masks, counts) if total > 0}
