"""The single-process PyG model that every engine path equals, and whose parameters it trains."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor
from torch_geometric.nn import APPNP, Linear, SGConv, TAGConv
from torch_geometric.nn.inits import glorot
from torch_geometric.nn.models import GAT, GCN, GIN, GraphSAGE
from torch_geometric.nn.models.basic_gnn import BasicGNN
from torch_geometric.utils import add_self_loops, remove_self_loops, softmax

from gnnplan.planner.graph import Graph
from gnnplan.planner.job import ModelSpec, TrainingSpec
from gnnplan.planner.losses import is_own, usual_loss
from gnnplan.planner.own_code.own_loss import own_loss
from gnnplan.profiles.kernels.optimizer_step import OPTIMIZERS

INPUT_LAYER = 2**32 - 1  # the dropout stream of the input features, apart from every layer's

Dropout = Callable[[Tensor, int, float], Tensor]


class TAGCN(BasicGNN):
    """PyG has the convolution (`TAGConv`) but no ready model of it."""

    supports_edge_weight = True
    supports_edge_attr = False

    def init_conv(self, in_channels, out_channels, **kwargs):
        """One `TAGConv` with K = `num_hops`."""
        return TAGConv(in_channels, out_channels, K=kwargs["num_hops"])


class SGC(BasicGNN):
    """SGConvs with ReLU between; with one of them as published."""

    supports_edge_weight = True
    supports_edge_attr = False

    def init_conv(self, in_channels, out_channels, **kwargs):
        """One `SGConv` with K = `num_hops`."""
        return SGConv(in_channels, out_channels, K=kwargs["num_hops"])


class _Rows(torch.nn.Module):
    """A Linear, and where `prop` is something that propagation behind it."""

    def __init__(self, in_channels: int, out_channels: int) -> None:
        super().__init__()
        self.lin, self.prop = Linear(in_channels, out_channels), None

    def reset_parameters(self) -> None:
        """Draws new weights."""
        self.lin.reset_parameters()

    def forward(self, x: Tensor, edge_index: Tensor) -> Tensor:
        """[N, out_channels]."""
        z = self.lin(x)
        return z if self.prop is None else self.prop(z, edge_index)


class AttentionPropagation(torch.nn.Module):
    """K propagations by one attention, as `GATConv` computes it, of the rows that are propagated.

    Args:
        channels: of a head.
    """

    def __init__(self, channels: int, heads: int, num_hops: int, alpha: float) -> None:
        super().__init__()
        self.heads, self.num_hops, self.alpha = heads, num_hops, alpha
        self.att_src = torch.nn.Parameter(torch.empty(1, heads, channels))
        self.att_dst = torch.nn.Parameter(torch.empty(1, heads, channels))
        for vector in (self.att_src, self.att_dst):
            glorot(vector)

    def forward(self, x: Tensor, edge_index: Tensor) -> Tensor:
        """The mean over heads, [N, channels], of x [N, heads * channels]."""
        edge_index, _ = add_self_loops(remove_self_loops(edge_index)[0], num_nodes=len(x))
        source, target = edge_index
        start = z = x.view(len(x), self.heads, -1)
        score = (z * self.att_src).sum(-1)[source] + (z * self.att_dst).sum(-1)[target]
        weight = softmax(F.leaky_relu(score, 0.2), target, num_nodes=len(x))[:, :, None]
        for _ in range(self.num_hops):
            z = torch.zeros_like(z).index_add(0, target, weight * z[source])
            z = (1 - self.alpha) * z + self.alpha * start
        return z.mean(1)


class PredictThenPropagate(BasicGNN):
    """Linears with ReLU between, and `APPNP` behind the last one: PyG has the propagation but no ready model of it."""

    supports_edge_weight = False
    supports_edge_attr = False

    def __init__(self, *args, num_hops: int, alpha: float, **kwargs) -> None:
        super().__init__(*args, **kwargs)
        self.convs[-1].prop = APPNP(K=num_hops, alpha=alpha)

    def init_conv(self, in_channels, out_channels, **kwargs):
        """One Linear."""
        return _Rows(in_channels, out_channels)


class DecoupledGAT(PredictThenPropagate):
    """The same, by attention: the last Linear makes the rows of every head, which are averaged in the end."""

    def __init__(self, *args, num_hops: int, alpha: float, heads: int, **kwargs) -> None:
        super().__init__(*args, num_hops=num_hops, alpha=alpha, **kwargs)
        last, channels = self.convs[-1].lin, self.out_channels
        self.convs[-1] = _Rows(last.in_channels, channels * heads)
        self.convs[-1].prop = AttentionPropagation(channels, heads, num_hops, alpha)


def build_pyg_model(model: ModelSpec, num_features: int, num_classes: int, seed: int) -> BasicGNN:
    """The PyG model with its own initial weights, equal for equal seeds on any number of workers."""
    common = {
        "in_channels": num_features,
        "hidden_channels": model.hidden_channels,
        "num_layers": model.num_layers,
        "out_channels": num_classes,
    }
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        match model.kind:
            case "gcn":
                return GCN(**common)
            case "sage":
                return GraphSAGE(**common)
            case "gat":
                return GAT(**common, heads=model.heads)
            case "gin":
                return GIN(**common)
            case "tagcn":
                return TAGCN(**common, num_hops=model.num_hops)
            case "sgc":
                return SGC(**common, num_hops=model.num_hops)
            case "appnp":
                return PredictThenPropagate(**common, num_hops=model.num_hops, alpha=model.alpha)
            case "decoupled_gat":
                return DecoupledGAT(**common, num_hops=model.num_hops, alpha=model.alpha, heads=model.heads)
            case "module":
                raise AssertionError("a user's own module is built by itself")


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
        loss = loss_of(pyg_forward(net, x, edge_index, dropout(epoch) if dropout else None), y, mask, training.loss)
        loss.backward()
        clip(net.parameters(), training)
        optimizer.step()
        losses.append(float(loss.detach()))
    return net, losses
