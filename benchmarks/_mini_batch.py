"""What the benchmarks of mini-batch epochs share: graphs, models, seeds, and how stages are made of them."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor
from torch_geometric.data import Data
from torch_geometric.nn.models import GAT, GCN, GraphSAGE

from gnnplan.planner.generate import generate_rmat
from gnnplan.planner.graph_spec import RmatGraph
from gnnplan.runtime.mini_batch.loader_stages import LoaderStages
from gnnplan.runtime.sampling.loader import NeighborLoader
from gnnplan.runtime.sampling.source import Source

MODELS = {"gcn": GCN, "sage": GraphSAGE, "gat": GAT}
NUM_CLASSES = 32


@dataclass(frozen=True)
class Setting:
    """What every route is given."""

    graph: RmatGraph
    fan_outs: list[int]
    hidden: int
    batch_size: int
    num_batches: int
    repeats: int


ON_CUDA = Setting(
    RmatGraph(source="rmat", num_nodes=4_000_000, num_edges=100_000_000, num_features=128, num_classes=NUM_CLASSES),
    [15, 10, 5],
    256,
    1024,
    30,
    3,
)
ON_CPU = Setting(
    RmatGraph(source="rmat", num_nodes=200_000, num_edges=4_000_000, num_features=128, num_classes=NUM_CLASSES),
    [15, 10, 5],
    64,
    256,
    24,
    3,
)
QUICK = Setting(
    RmatGraph(source="rmat", num_nodes=2000, num_edges=20_000, num_features=16, num_classes=NUM_CLASSES),
    [4, 3],
    16,
    64,
    8,
    1,
)


def data_of(setting: Setting) -> Data:
    """The setting's graph as PyG takes it."""
    graph = generate_rmat(setting.graph)
    return Data(
        x=torch.from_numpy(graph.x),
        y=torch.from_numpy(graph.y),
        edge_index=torch.from_numpy(graph.edge_index).to(torch.int64),
    )


def seeds_of(setting: Setting) -> Tensor:
    """int64 [S], the seeds of an epoch, drawn from all vertices."""
    drawn = torch.randperm(setting.graph.num_nodes, generator=torch.Generator().manual_seed(0))
    return drawn[: setting.batch_size * setting.num_batches]


def stages_of(
    kind: str, setting: Setting, loader: NeighborLoader, device: torch.device, source: Source | None = None
) -> LoaderStages:
    """A fresh model of a kind (of `MODELS`, or `linear`) on a loader's batches; equal weights every time."""
    torch.manual_seed(0)
    model = _model(kind, setting).to(device)
    optimizer = torch.optim.Adam(model.parameters(), lr=0.003)
    return LoaderStages(loader, model, optimizer, device=device, gpu_source=source)


def _model(kind: str, setting: Setting) -> torch.nn.Module:
    num_features = setting.graph.num_features
    if kind == "linear":
        return _Linear(num_features, NUM_CLASSES)
    return MODELS[kind](num_features, setting.hidden, len(setting.fan_outs), NUM_CLASSES)


class _Linear(torch.nn.Linear):
    """Trains so fast that only the batches' making takes time."""

    def forward(self, x: Tensor, edge_index: Tensor) -> Tensor:
        return super().forward(x)
