"""A layer of somebody's own in a file, on a graph with features of edges: planned, predicted and run on two workers."""

from copy import deepcopy
from functools import partial

import numpy as np
import pytest
import torch

import gnnplan
from gnnplan.planner import api
from gnnplan.planner.cluster import Cluster, DeviceSpec, HostSpec
from gnnplan.planner.generate import generate_sbm
from gnnplan.planner.graph_spec import SbmGraph
from gnnplan.planner.job import Job
from gnnplan.planner.loaders import load_graph
from gnnplan.planner.models.module_source import module_of
from gnnplan.planner.models.module_state import matrices_of
from gnnplan.planner.plan_files import load_partition
from gnnplan.planner.program.sequential import SequentialExecutor
from gnnplan.planner.run import cycle_of
from gnnplan.profiles.catalog import catalog_profile
from gnnplan.profiles.errors import UserError
from tests import warm
from tests.planner.models import trained_modules
from tests.planner.models.edge_modules import CARRIED, graph_with_edges

SOURCE = """
import torch
from torch import nn
from torch.nn import functional as F
from torch_geometric.nn import GCNConv, MessagePassing


class Own(MessagePassing):
    def __init__(self, width):
        super().__init__(aggr="mean")
        self.message_of = nn.Sequential(nn.Linear(2 * width + 3, width), nn.ReLU(), nn.Linear(width, width))

    def forward(self, x, edge_index, edge_attr):
        return x + self.propagate(edge_index, x=x, edge_attr=edge_attr)

    def message(self, x_i, x_j, edge_attr):
        return self.message_of(torch.cat([x_i, x_j, edge_attr], dim=1))


class Net(nn.Module):
    def __init__(self, num_features, num_classes, width=16):
        super().__init__()
        self.first, self.own = GCNConv(num_features, width), Own(width)
        self.norm, self.head = nn.BatchNorm1d(width), nn.Linear(width, num_classes)

    def forward(self, x, edge_index, edge_attr):
        x = F.relu(self.first(x, edge_index))
        return self.head(F.dropout(self.norm(self.own(x, edge_index, edge_attr)), 0.3, self.training))


def build(num_features, num_classes):
    return Net(num_features, num_classes)
"""
EPOCHS, SEED = 4, 3


@pytest.fixture(scope="module")
def cluster(tmp_path_factory):
    """Two workers on one host, with a published GPU's figures and the device kind of a CPU."""
    path = tmp_path_factory.mktemp("profile") / "here.json"
    catalog_profile("rtx-3090").model_copy(update={"device_kind": "cpu", "num_threads": 1}).save(path)
    return Cluster(hosts=(HostSpec(name="here", devices=(DeviceSpec(profile=path, count=2),)),))


@pytest.fixture
def job(tmp_path):
    """A module by file and function, on a graph in a file."""
    (tmp_path / "my_layer.py").write_text(SOURCE)
    graph = generate_sbm(SbmGraph(source="sbm", num_nodes=200, average_degree=6, num_classes=4, num_features=12))
    features = np.random.default_rng(0).normal(size=(graph.num_edges, 3)).astype(np.float32)
    masks = {"train_mask": graph.train_mask, "val_mask": graph.val_mask, "test_mask": graph.test_mask}
    arrays = {"edge_index": graph.edge_index, "x": graph.x, "y": graph.y, "edge_attr": features}
    np.savez(tmp_path / "graph.npz", num_nodes=graph.num_nodes, **arrays, **masks)
    raw = {
        "graph": {"source": "npz", "path": "graph.npz"},
        "model": "my_layer.py:build",
        "training": {"epochs": EPOCHS, "seed": SEED, "learning_rate": trained_modules.RATE, "optimizer": "sgd"},
        "pin": {"num_workers": 2},
    }
    return Job.parse(raw, where="job").with_paths_from(tmp_path)


@pytest.mark.long
@pytest.mark.distributed
def test_trains_as_pyg_does(job, cluster, tmp_path):
    """Losses, a `model.pt` that loads strictly, and its logits; every predicted task is measured."""
    plan = api.plan(job, cluster, tmp_path / "plan.json")
    with warm.runs():
        measured = api.run(tmp_path / "plan.json", tmp_path / "run", timeout_s=60)
        made = gnnplan.infer(
            tmp_path / "plan.json", tmp_path / "run", tmp_path / "logits.npy", graph=load_graph(job.graph)
        )
    build = partial(module_of, job.model, 12, 4, SEED)
    want = trained_modules.by_pyg(build(), load_graph(job.graph), EPOCHS)
    assert measured.losses == pytest.approx(want.losses, rel=1e-5)
    trained = build()
    trained.load_state_dict(torch.load(tmp_path / "run" / "model.pt", weights_only=True))
    assert trained_modules.Outcome(list(measured.losses), trained.state_dict()).off(want, nothing=1e-2) < 1e-5
    with np.load(tmp_path / "graph.npz", allow_pickle=False) as read:
        x, edge_index, features = (torch.from_numpy(read[name]) for name in ("x", "edge_index", "edge_attr"))
    logits = torch.from_numpy(np.load(made.path, allow_pickle=False))
    assert torch.allclose(logits, trained.eval()(x, edge_index.long(), features), atol=1e-5)
    assert {span.task for span in measured.spans} == {span.task for span in api.simulate(plan).spans}


@pytest.mark.long
def test_a_plan_is_read_without_its_code(job, cluster, tmp_path):
    """Simulating runs none of it; its tasks are said to be guesses."""
    plan = api.plan(job, cluster, tmp_path / "plan.json")
    (tmp_path / "my_layer.py").unlink()
    assert api.simulate(tmp_path / "plan.json").spans
    assert {"own/layer", "own/layer/backward/layer_grad"} <= set(plan.prediction.unprofiled)
    with pytest.raises(UserError, match="cannot be read"):
        api.run(tmp_path / "plan.json", tmp_path / "run")


@pytest.mark.long
def test_a_module_in_memory_is_planned_and_not_run(job, cluster, tmp_path):
    """Workers cannot import it; what to do is said before they are started."""
    graph, module = load_graph(job.graph), module_of(job.model, 12, 4, SEED)
    path = tmp_path / "plan.json"
    api.plan({"training": {"epochs": 1}}, cluster, path, graph=graph, model=module)
    with pytest.raises(UserError, match=r'write it into a file and name it: model = "FILE.py:FUNCTION"'):
        api.run(path, tmp_path / "run", graph=graph, model=module)
    with pytest.raises(UserError, match=r'write it into a file and name it: model = "FILE.py:FUNCTION"'):
        api.train(model=module, graph=graph, cluster=cluster, folder=tmp_path / "train")
    assert not (tmp_path / "train" / "plan.json").exists(), "it is said before a plan is searched"


@pytest.mark.long
def test_carried_features_of_edges_are_planned_without_replicas(cluster, tmp_path):
    """Levels must have the same edges; the plan's program is exact, and replicas are refused by name."""
    graph, module = graph_with_edges(), trained_modules.made(CARRIED["meshgraphnet"], graph_with_edges())
    training = {"epochs": EPOCHS, "seed": trained_modules.SEED, "optimizer": "sgd", "learning_rate": 0.05}
    job, path = {"training": training, "pin": {"num_workers": 2}}, tmp_path / "plan.json"
    plan = api.plan(job, cluster, path, graph=graph, model=module)
    assert "replicas" not in {chosen.technique for chosen in plan.choices}
    cycle = cycle_of(plan, graph, load_partition(plan, path))
    start = matrices_of(deepcopy(module).double(), cycle)
    executor = SequentialExecutor(cycle, trained_modules.inputs_of(cycle, graph), start, module=module)
    losses = [float(executor.run(cycle.order[0], epoch)["total_loss"][0]) for epoch in range(EPOCHS)]
    assert losses == pytest.approx(trained_modules.by_pyg(module, graph, EPOCHS).losses, rel=1e-6)
    job["pin"]["techniques"] = {"replicas": True}
    with pytest.raises(
        UserError, match="replicas gives levels different edges, and layers of the module hand features"
    ):
        api.plan(job, cluster, path, graph=graph, model=module)


@pytest.mark.parametrize("name", ["feature_slices", "source_chunks", "boundary_sampling"])
def test_what_only_knows_sums_is_left_out(name, job, cluster, tmp_path):
    """And where a job asks for it, refused by its name."""
    pin = job.pin.model_copy(update={"techniques": {name: True}})
    job = job.model_copy(update={"pin": pin, "fidelity": "approximate"})
    with pytest.raises(
        UserError, match=f"pin.techniques.{name}: {name} knows sums over edges, and the module has layers"
    ):
        api.plan(job, cluster, tmp_path / "plan.json")
