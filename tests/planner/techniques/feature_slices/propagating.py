"""Modules that propagate several times without a product between, and small programs of operators by column."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import scipy.sparse as sp
from torch import nn
from torch.nn import functional as F
from torch_geometric import nn as pyg

from gnnplan.planner.program.arrays import Arrays
from gnnplan.planner.program.cycle import Cycle
from gnnplan.planner.program.derive import differentiate
from gnnplan.planner.program.emitter import Emitter
from gnnplan.planner.program.optimizer import Optimizer
from gnnplan.planner.program.parts import Block, Space, Value
from gnnplan.planner.techniques.feature_slices.grid import Grid
from gnnplan.planner.techniques.feature_slices.layout import share_columns
from gnnplan.planner.techniques.operator_order.expand import expand_filters
from tests.planner.models.trained_modules import forward_of
from tests.planner.program.cases import small_graph

EVEN = (1.0, 1.0, 1.0)
WIDTH = 6


class Attending(nn.Module):
    """Sums by heads beside sums without any, with what draws by columns between them."""

    def __init__(self, num_features: int, num_classes: int) -> None:
        super().__init__()
        self.first = pyg.GATConv(num_features, 3, heads=2, bias=False, add_self_loops=False)
        self.prop, self.head = pyg.LGConv(), nn.Linear(WIDTH, num_classes)

    def forward(self, x, edge_index):
        x = self.first(x, edge_index)
        x = self.prop(F.dropout(x, 0.3, self.training), edge_index)
        return self.head(self.prop(F.elu(x), edge_index))


class Unalike(nn.Module):
    """In evaluation a sum reads what in training is dropped from first."""

    def __init__(self, num_features: int, num_classes: int) -> None:
        super().__init__()
        self.convs = nn.ModuleList([pyg.SAGEConv(num_features, WIDTH, bias=False), pyg.SAGEConv(WIDTH, num_classes)])

    def forward(self, x, edge_index):
        x = F.dropout(self.convs[0](x, edge_index), 0.3, self.training)
        return self.convs[1](x, edge_index)


class Predict(nn.Module):
    """Products first, then propagations (Gasteiger et al. 2019)."""

    def __init__(self, num_features: int, num_classes: int, depth: int) -> None:
        super().__init__()
        self.rows = nn.Sequential(nn.Linear(num_features, WIDTH), nn.ReLU(), nn.Linear(WIDTH, num_classes))
        self.prop = pyg.APPNP(K=depth, alpha=0.1)

    def forward(self, x, edge_index):
        return self.prop(self.rows(x), edge_index)


class Simple(nn.Module):
    """A product and propagations (Wu et al. 2019)."""

    def __init__(self, num_features: int, num_classes: int, depth: int) -> None:
        super().__init__()
        self.conv = pyg.SGConv(num_features, num_classes, K=depth)

    def forward(self, x, edge_index):
        return self.conv(x, edge_index)


def sliced_module(module: nn.Module, shares: tuple[float, ...] = EVEN, **orders: str) -> Cycle:
    """The cycle of a module's training on the small graph, in slices."""
    forward = expand_filters(forward_of(module, small_graph()), orders)
    return differentiate(share_columns(forward, Grid(tuple(shares))), Optimizer("sgd", 0.1))


@dataclass(frozen=True)
class Step:
    """An operator of a small program: of which values it is made, by their numbers, and of what kind."""

    kind: str
    reads: tuple[int, ...]

    @property
    def has_choice(self) -> bool:
        """Whether it may be made in either form."""
        return self.kind == "add"


def program_of(steps: list[Step], num_nodes: int = 4, width: int = 4) -> Cycle:
    """A forward program of one worker: an input, and the values of the steps; all else than these is by row."""
    vertices = [np.arange(num_nodes)]
    emitter = Emitter(Cycle(1, arrays=Arrays()))
    emitter.add_space(Space("v@0", (num_nodes,), (num_nodes,), 0), vertices)
    emitter.add_block(
        Block("A@0", "v@0", "v@0", (num_nodes,)), [sp.identity(num_nodes, dtype=np.float32, format="csr")]
    )
    names = [emitter.add_value(Value("x", "v@0", width, role="input"))]
    attributes = {
        "aggregate": {"block": "A@0"},
        "add": {"factors": (1, 1)},
        "layer_norm": {"eps": 1e-5, "affine": False},
    }
    emitter.begin()
    for number, step in enumerate(steps):
        reads = (names[read] for read in step.reads)
        names.append(emitter.emit(step.kind, *reads, key=f"op{number}", **attributes[step.kind]))
    emitter.end("train")
    return replace(emitter.cycle, order=("train",))
