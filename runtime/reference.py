"""Training by PyG in one process, which every engine path equals."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor
from torch_geometric.nn.models.basic_gnn import BasicGNN

from gnnplan.planner.graph import Graph
from gnnplan.planner.losses import is_own, usual_loss
from gnnplan.planner.model_spec import ModelSpec
from gnnplan.planner.models.pyg_models import build_pyg_model
from gnnplan.planner.own_code.own_loss import own_loss
from gnnplan.planner.pairs import Pairs
from gnnplan.planner.training_spec import TrainingSpec
from gnnplan.profiles.kernels.optimizer_step import OPTIMIZERS

INPUT_LAYER = 2**32 - 1  # the dropout stream of the input features, apart from every layer's

Dropout = Callable[[Tensor, int, float], Tensor]


def pyg_forward(net: BasicGNN, x: Tensor, edge_index: Tensor, dropout: Dropout | None = None) -> Tensor:
    """Logits [N, C] by PyG's own message passing.

    `dropout(h, layer, width)` drops between layers, and on the input as layer `INPUT_LAYER`.
    """
    if dropout is not None:
        x = dropout(x, INPUT_LAYER, x.shape[1])
    for layer, conv in enumerate(net.convs):
        x = conv(x, edge_index)
        if layer < len(net.convs) - 1:
            x = x.relu()
            if dropout is not None:
                x = dropout(x, layer, x.shape[1])
    return x


def loss_of(logits: Tensor, y: Tensor, mask: Tensor | slice, name: str = "auto") -> Tensor:
    """The mean of the loss that a job names; of one's own over the rows that it gives a loss of."""
    logits, y = logits[mask], y[mask]
    if is_own(name):
        return own_loss(name, "")(logits, y).mean()
    return _LOSSES[usual_loss(y.dim() == 2) if name == "auto" else name](logits, y)


def pairs_loss(embeddings: Tensor, pairs: Pairs) -> Tensor:
    """The mean binary cross-entropy of inner products, of all pairs that are trained on."""
    of = pairs.trained.matrix.tocoo()
    heads, tails = (torch.from_numpy(each).long() for each in (of.row, of.col))
    told = torch.from_numpy(pairs.trained.told[of.data - 1, 0]).to(embeddings)
    return F.binary_cross_entropy_with_logits((embeddings[heads] * embeddings[tails]).sum(1), told)


def training_loss(logits: Tensor, y: Tensor, mask: Tensor, name: str, pairs: Pairs | None) -> Tensor:
    """The loss of an epoch: of labels, or of pairs where there are any."""
    return pairs_loss(logits, pairs) if pairs else loss_of(logits, y, mask, name)


_LOSSES: dict[str, Callable[[Tensor, Tensor], Tensor]] = {
    "cross_entropy": F.cross_entropy,
    "bce": F.binary_cross_entropy_with_logits,
    "mse": F.mse_loss,
    "l1": F.l1_loss,
}


def build_optimizer(parameters, training: TrainingSpec, *, fused: bool = False) -> torch.optim.Optimizer:
    """The optimizer of a job: torch's default implementation, or its fused one, which the engine uses."""
    options: dict[str, Any] = {"lr": training.learning_rate, "weight_decay": training.weight_decay}
    options |= {"fused": fused} if training.optimizer in ("adam", "adamw", "sgd") else {}
    options |= {"momentum": training.momentum} if training.momentum else {}
    return OPTIMIZERS[training.optimizer](parameters, **options, **training.optimizer_arguments)


def build_schedule(optimizer: torch.optim.Optimizer, training: TrainingSpec) -> torch.optim.lr_scheduler.LRScheduler:
    """What changes the learning rate after every epoch, of a schedule that asks for no metric."""
    schedules, warmup = torch.optim.lr_scheduler, training.warmup_epochs
    given: dict[str, Any] = dict(training.schedule_arguments)
    epochs = training.epochs - warmup
    match training.schedule:
        case "cosine":
            main: Any = schedules.CosineAnnealingLR(optimizer, **{"T_max": epochs, **given})
        case "step":
            main = schedules.StepLR(optimizer, **given)
        case "multistep":
            main = schedules.MultiStepLR(optimizer, **given)
        case "exponential":
            main = schedules.ExponentialLR(optimizer, **given)
        case "linear":
            bounds = {"start_factor": 1.0, "end_factor": 0.0, "total_iters": epochs}
            main = schedules.LinearLR(optimizer, **{**bounds, **given})
        case _:
            main = schedules.LinearLR(optimizer, 1.0, 1.0, total_iters=epochs)
    if not warmup:
        return main
    first = schedules.LinearLR(optimizer, 1 / warmup, total_iters=warmup - 1)
    return schedules.SequentialLR(optimizer, [first, main], [warmup])


def clip(parameters, training: TrainingSpec) -> None:
    """Clips gradients as a job says, by torch's own functions."""
    parameters = list(parameters)
    if training.clip_value:
        torch.nn.utils.clip_grad_value_(parameters, training.clip_value)
    if training.clip_norm:
        torch.nn.utils.clip_grad_norm_(parameters, training.clip_norm)


def dense_features(graph: Graph) -> np.ndarray:
    """float32 [N, F]."""
    return graph.x if isinstance(graph.x, np.ndarray) else graph.x.toarray()


def graph_tensors(graph: Graph) -> tuple[Tensor, Tensor, Tensor]:
    """Dense x [N, F], edge_index int64 [2, E] and y of a graph."""
    return torch.from_numpy(dense_features(graph)), torch.from_numpy(graph.edge_index).long(), torch.from_numpy(graph.y)


def train_reference(
    graph: Graph,
    model: ModelSpec,
    training: TrainingSpec,
    *,
    epochs: int | None = None,
    dropout: Callable[[int], Dropout] | None = None,
) -> tuple[BasicGNN, list[float]]:
    """Trains in one process with PyG alone; returns the model and the loss of every epoch.

    `dropout(epoch)` gives the function that drops in that epoch.
    """
    x, edge_index, y = graph_tensors(graph)
    mask = torch.from_numpy(graph.train_mask)
    net = build_pyg_model(model, graph.num_features, graph.num_classes, training.seed)
    optimizer = build_optimizer(net.parameters(), training)
    losses = []
    for epoch in range(training.epochs if epochs is None else epochs):
        optimizer.zero_grad()
        logits = pyg_forward(net, x, edge_index, dropout(epoch) if dropout else None)
        loss = training_loss(logits, y, mask, training.loss, graph.pairs)
        loss.backward()
        clip(net.parameters(), training)
        optimizer.step()
        losses.append(float(loss.detach()))
    return net, losses
