"""The accuracy of one family after every epoch of a short training in one process."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from pathlib import Path

import torch
import torch.nn.functional as F
from torch import Tensor
from torch_geometric.data import Data
from torch_geometric.nn.models.basic_gnn import BasicGNN

from gnnplan.planner.graph import Graph
from gnnplan.planner.job import Job
from gnnplan.planner.loaders import load_graph
from gnnplan.planner.losses import loss_of as loss_named
from gnnplan.planner.metrics import metric_of
from gnnplan.planner.models.pyg_models import build_pyg_model
from gnnplan.planner.pilot.contract import Curve, family_of, label, trained_fingerprint
from gnnplan.planner.pilot.variants import told_of, variant_of
from gnnplan.profiles.errors import NotFiniteError, UserError
from gnnplan.profiles.kernels.metrics import sums_of
from gnnplan.profiles.launch import emit
from gnnplan.runtime.pilot.planned import PlannedTraining
from gnnplan.runtime.reference import INPUT_LAYER, build_optimizer, graph_tensors, loss_of, pyg_forward
from gnnplan.runtime.sampling.loader import NeighborLoader

_SHARES = ("accuracy", "f1_micro")  # metrics that are one sum over another
Epoch = Callable[[], tuple[float, int]]
"""Trains an epoch; returns its mean loss and its optimizer steps."""
Share = Callable[[], float]
"""The metric on the vertices that it is said of."""
Steps = Callable[[], tuple[Tensor, int]]


def loaded_curve(path: Path, device: torch.device, epochs: int, accuracy: float) -> Curve:
    """The curve of a job file, told on the way."""
    job = Job.load(path)
    words = label(family_of(job), told_of(job))

    def on_epoch(epoch: int, reached: float) -> None:
        emit({"event": "epoch", "words": words, "epoch": epoch, "epochs": epochs, "accuracy": reached})

    return curve_of(job, load_graph(job.graph), device, epochs, accuracy, on_epoch)


def curve_of(
    job: Job,
    graph: Graph,
    device: torch.device,
    epochs: int,
    accuracy: float = 1.0,
    on_epoch: Callable[[int, float], None] = lambda *_: None,
) -> Curve:
    """Trains by the job's family and evaluates after every epoch, on the whole graph without sampling or dropout.

    Args:
        epochs: at most so many; fewer where the accuracy is reached before.
        on_epoch: called with every epoch's number and the accuracy then.

    Raises:
        UserError: the graph has nothing to train or to evaluate.
        NotFiniteError: training came to NaN or infinity.
    """
    mask = graph.val_mask if graph.val_mask.any() else graph.train_mask
    if not mask.any():
        raise UserError(f"{graph.name}: no vertex is trained; give the graph a split")
    metric = metric_of(job.training.metric, job.training.loss, graph)
    if metric not in _SHARES:
        raise UserError(f"{job.name}: training.metric is {metric}; pilots know {' and '.join(_SHARES)}")
    if variant_of(job):
        planned = PlannedTraining(job, graph, device, epochs)
        train, share = planned.epoch, planned.share
    else:
        train, share = _by_pyg(job, graph, device, metric, torch.from_numpy(mask).to(device))
    accuracies: list[float] = []
    steps = 0
    for epoch in range(epochs):
        loss, steps = train()
        if not math.isfinite(loss):
            raise NotFiniteError(f"epoch {epoch}: the loss is NaN or infinite: training diverges; lower learning_rate")
        accuracies.append(share())
        on_epoch(epoch, accuracies[-1])
        if accuracies[-1] >= accuracy:
            break
    trained = trained_fingerprint(job, graph.fingerprint)
    facts = {"trained": trained, "family": family_of(job), "variant": told_of(job), "steps_per_epoch": steps}
    return Curve(**facts, accuracies=tuple(accuracies))


def _by_pyg(job: Job, graph: Graph, device: torch.device, metric: str, mask: Tensor) -> tuple[Epoch, Share]:
    """PyG's model of the job: what trains an epoch, and what says how good it is then."""
    net = build_pyg_model(job.model, graph.num_features, graph.num_classes, job.training.seed).to(device)
    net.dropout.p = job.model.dropout
    torch.manual_seed(job.training.seed)  # of what dropout drops
    x, edge_index, y = (tensor.to(device) for tensor in graph_tensors(graph))
    train = _batches(job, graph, net, device) if job.mini_batch else _whole(job, graph, net, (x, edge_index, y))

    def epoch() -> tuple[float, int]:
        net.train()
        loss, steps = train()
        return float(loss), steps

    @torch.no_grad()
    def share() -> float:
        net.eval()
        right, total = sums_of(metric, pyg_forward(net, x, edge_index)[mask], y[mask]).tolist()
        return right / total if total else 0.0

    return epoch, share


def _whole(job: Job, graph: Graph, net: BasicGNN, tensors: tuple[Tensor, Tensor, Tensor]) -> Steps:
    """One step an epoch, over all vertices that are trained."""
    x, edge_index, y = tensors
    optimizer, mask = build_optimizer(net.parameters(), job.training), torch.from_numpy(graph.train_mask).to(x.device)
    name = loss_named(job.training.loss, graph)

    def dropout(h: Tensor, layer: int, width: float) -> Tensor:
        return h if layer == INPUT_LAYER else F.dropout(h, job.model.dropout)

    def epoch() -> tuple[Tensor, int]:
        optimizer.zero_grad()
        logits = pyg_forward(net, x, edge_index, dropout if job.model.dropout else None)
        loss = loss_of(logits, y, mask, name)
        loss.backward()
        optimizer.step()
        return loss.detach(), 1

    return epoch


def _batches(job: Job, graph: Graph, net: BasicGNN, device: torch.device) -> Steps:
    """One step a batch of sampled neighbours, as plans of mini-batches on one worker train them."""
    spec = job.mini_batch
    assert spec is not None
    x, edge_index, y = graph_tensors(graph)
    loader = NeighborLoader(
        Data(x=x, edge_index=edge_index, y=y),
        spec.fan_outs,
        torch.from_numpy(graph.train_mask),
        batch_size=spec.batch_size,
        shuffle=True,
        seed=job.training.seed,
    )
    optimizer, name = build_optimizer(net.parameters(), job.training), loss_named(job.training.loss, graph)

    def losses() -> Iterator[Tensor]:
        for made in loader:
            batch = made.to(device)
            optimizer.zero_grad()
            logits = net(batch.x, batch.edge_index)[: batch.batch_size]
            loss = loss_of(logits, batch.y[: batch.batch_size], slice(None), name)
            loss.backward()
            optimizer.step()
            yield loss.detach()

    def epoch() -> tuple[Tensor, int]:
        found = torch.stack(list(losses()))
        return found.mean(), len(found)

    return epoch
