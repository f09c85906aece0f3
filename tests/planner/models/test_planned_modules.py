"""Modules whose features meet more than a product first, under the plans that the search makes of them."""

from copy import deepcopy
from dataclasses import replace

import numpy as np
import pytest
import scipy.sparse as sp
import torch
from torch import nn
from torch.nn import functional as F
from torch_geometric import nn as pyg

from gnnplan.planner import api
from gnnplan.planner.cluster import Cluster, DeviceSpec, HostSpec
from gnnplan.planner.generate import generate_sbm
from gnnplan.planner.graph_spec import MemoryGraph, SbmGraph
from gnnplan.planner.job import Job
from gnnplan.planner.job_pins import PinnedDecisions
from gnnplan.planner.model_spec import ModelSpec
from gnnplan.planner.models.module_state import matrices_of
from gnnplan.planner.plan_files import load_partition
from gnnplan.planner.program.sequential import SequentialExecutor
from gnnplan.planner.run import cycle_of
from gnnplan.planner.training_spec import TrainingSpec
from gnnplan.profiles.errors import UserError
from gnnplan.runtime.module_reference import train_module
from gnnplan.runtime.reference import dense_features
from tests.planner.models.trained_modules import made
from tests.planner.program.cases import as_csr

EPOCHS = 4
TRAINING = TrainingSpec(epochs=EPOCHS, optimizer="sgd", learning_rate=0.05, seed=1)
CLUSTER = Cluster(hosts=(HostSpec(name="here", devices=(DeviceSpec(catalog="t4", count=3),)),))


class Rows(nn.Module):
    """Of no edges at all."""

    def __init__(self, num_features, num_classes):
        super().__init__()
        self.a, self.norm, self.b = nn.Linear(num_features, 8), nn.BatchNorm1d(8), nn.Linear(8, num_classes)

    def forward(self, x, edge_index):
        return self.b(F.relu(self.norm(self.a(x))))


class NormFirst(nn.Module):
    """Statistics of the features never change, and need no gradient."""

    def __init__(self, num_features, num_classes):
        super().__init__()
        self.norm = nn.BatchNorm1d(num_features)
        self.a, self.b = pyg.GCNConv(num_features, 8), pyg.SAGEConv(8, num_classes)

    def forward(self, x, edge_index):
        return self.b(F.relu(self.a(self.norm(x), edge_index)), edge_index)


class Beside(nn.Module):
    """Features beside what is made of them, at three levels."""

    def __init__(self, num_features, num_classes):
        super().__init__()
        self.a, self.b = pyg.GCNConv(num_features, 8), pyg.GATConv(num_features + 8, 8, heads=2)
        self.head = nn.Linear(num_features + 24, num_classes)

    def forward(self, x, edge_index):
        h = torch.cat([x, F.elu(self.a(x, edge_index))], dim=-1)
        return self.head(torch.cat([h, self.b(h, edge_index)], dim=1))


class Dropped(nn.Module):
    """Dropout of the features, which two ways read."""

    def __init__(self, num_features, num_classes):
        super().__init__()
        self.a, self.skip = pyg.GCNConv(num_features, 8), nn.Linear(num_features, 8)
        self.b = pyg.SAGEConv(8, num_classes)

    def forward(self, x, edge_index):
        x = F.dropout(x, 0.3, self.training)
        return self.b(F.relu(self.a(x, edge_index) + self.skip(x)), edge_index)


PINS = {
    "rows": {"techniques": {"halo_exchange": True}},
    "slices": {"techniques": {"feature_slices": True}},
    "replicas": {"dependencies": "cache", "techniques": {"halo_exchange": True}},
    "sparse": {"sparse_features": True},
}


def graph_of(*, sparse, multilabel=False):
    """Features of which one in five is not zero where they are sparse."""
    graph = generate_sbm(SbmGraph(source="sbm", num_nodes=120, average_degree=6, num_features=12, num_classes=3))
    rng = np.random.default_rng(0)
    if sparse:
        x = graph.x * (rng.random(graph.x.shape) < 0.2)
        graph = replace(graph, x=sp.csr_matrix(x.astype(np.float32)))
    return replace(graph, y=(rng.random((120, 3)) < 0.4).astype(np.float32)) if multilabel else graph


def planned(module, graph, pins, folder):
    """The cycle of the plan that the search makes."""
    pin = PinnedDecisions(num_workers=3, **pins)
    job = Job(graph=MemoryGraph(), model=ModelSpec(kind="module").holding(module), training=TRAINING, pin=pin)
    plan = api.plan(job, CLUSTER, folder / "plan.json", graph=graph)
    return cycle_of(plan, graph, load_partition(plan, folder / "plan.json"))


def losses_of(cycle, module, graph):
    """By the sequential executor."""
    x, y, ids = torch.from_numpy(dense_features(graph)), torch.from_numpy(graph.y), cycle.arrays.ids
    rows = [x[each] for each in ids["v@0"]]
    labels = [y[each] if y.dim() == 2 else y[each][:, None] for each in ids[cycle.values["y"].space]]
    is_sparse = cycle.values["x"].layout == "csr"
    inputs = {"x": [as_csr(each) for each in rows] if is_sparse else rows, "y": labels}
    executor = SequentialExecutor(cycle, inputs, matrices_of(deepcopy(module).double(), cycle))
    return [float(executor.run(cycle.order[0], epoch)["total_loss"][0]) for epoch in range(EPOCHS)]


@pytest.mark.long
@pytest.mark.parametrize("multilabel", [False, True], ids=["classes", "labels"])
@pytest.mark.parametrize("pins", PINS)
@pytest.mark.parametrize("kind", [Rows, NormFirst, Beside, Dropped])
def test_plans_are_exact(kind, pins, multilabel, tmp_path):
    """Under any layout; CSR where the module only multiplies and aggregates its features, else it is refused."""
    graph = graph_of(sparse=pins == "sparse", multilabel=multilabel)
    module = made(kind, graph)
    if pins == "sparse" and kind in (NormFirst, Beside):
        with pytest.raises(UserError, match=r"pin\.sparse_features: this model does more with its features than"):
            planned(module, graph, PINS[pins], tmp_path)
        return
    cycle = planned(module, graph, PINS[pins], tmp_path)
    assert (cycle.values["x"].layout == "csr") == (pins == "sparse")
    _, want = train_module(module, graph, TRAINING, torch.float64)
    assert losses_of(cycle, module, graph) == pytest.approx(want, rel=1e-6)
