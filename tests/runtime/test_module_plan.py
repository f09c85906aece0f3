"""A module of one's own from its file to a trained model: planned, predicted and run on two workers."""

from functools import partial

import pytest
import torch

from gnnplan.planner import api
from gnnplan.planner.cluster import Cluster, DeviceSpec, HostSpec
from gnnplan.planner.job import Job
from gnnplan.planner.loaders import load_graph
from gnnplan.planner.models.module_source import module_of
from gnnplan.profiles.catalog import catalog_profile
from gnnplan.profiles.errors import UserError
from gnnplan.runtime.net import Net, read_weights
from tests import warm
from tests.planner.models import trained_modules

pytestmark = pytest.mark.distributed

SOURCE = """
import torch
from torch import nn
from torch.nn import functional as F
from torch_geometric.nn import GCNConv, SAGEConv


class Net(nn.Module):
    def __init__(self, num_features, num_classes, width=16):
        super().__init__()
        self.first = nn.Linear(num_features, width)
        self.conv, self.norm = GCNConv(width, width), nn.BatchNorm1d(width)
        self.second, self.head = SAGEConv(width, width), nn.Linear(width, num_classes)

    def forward(self, x, edge_index):
        x = F.relu(self.first(x))
        x = x + F.dropout(F.gelu(self.norm(self.conv(x, edge_index))), 0.3, self.training)
        return self.head(F.relu(self.second(x, edge_index)) + x)


def build(num_features, num_classes):
    return Net(num_features, num_classes)
"""
EPOCHS, SEED = 4, 3
GRAPH = {"source": "sbm", "num_nodes": 300, "average_degree": 8, "num_classes": 4, "num_features": 12, "seed": 1}


@pytest.fixture(scope="module")
def cluster(tmp_path_factory):
    """Two workers on one host, with a published GPU's figures and the device kind of a CPU."""
    path = tmp_path_factory.mktemp("profile") / "here.json"
    catalog_profile("rtx-3090").model_copy(update={"device_kind": "cpu", "num_threads": 1}).save(path)
    return Cluster(hosts=(HostSpec(name="here", devices=(DeviceSpec(profile=path, count=2),)),))


@pytest.fixture
def job(tmp_path):
    """A job that names its module by file and function."""
    (tmp_path / "my_model.py").write_text(SOURCE)
    raw = {
        "graph": GRAPH,
        "model": "my_model.py:build",
        "training": {"epochs": EPOCHS, "seed": SEED, "learning_rate": trained_modules.RATE, "optimizer": "sgd"},
        "pin": {"num_workers": 2},
    }
    return Job.parse(raw, where="job").with_paths_from(tmp_path)


PINS = {
    "rows": {"dependencies": "communicate", "techniques": {"halo_exchange": True}},
    "replicas": {"dependencies": "cache", "techniques": {"halo_exchange": True}},
    "slices": {"techniques": {"feature_slices": True}},
}


@pytest.mark.long
@pytest.mark.parametrize("layout", PINS)
def test_trains_as_pyg_does(layout, job, cluster, tmp_path):
    """Losses, and a `model.pt` that loads strictly into the module, with the numbers of plain PyG."""
    job = job.model_copy(update={"pin": job.pin.model_copy(update=PINS[layout])})
    plan = api.plan(job, cluster, tmp_path / "plan.json")
    assert {chosen.technique for chosen in plan.choices} >= set(PINS[layout]["techniques"])
    with warm.runs():
        measured = api.run(tmp_path / "plan.json", tmp_path / "run", timeout_s=60)
    graph, build = load_graph(job.graph), partial(module_of, job.model, seed=SEED)
    want = trained_modules.by_pyg(build(num_features=12, num_classes=4), graph, EPOCHS)
    assert measured.losses == pytest.approx(want.losses, rel=1e-5)
    trained = build(num_features=12, num_classes=4)
    trained.load_state_dict(torch.load(tmp_path / "run" / "model.pt", weights_only=True))
    got = trained_modules.Outcome(list(measured.losses), trained.state_dict())
    assert got.off(want, nothing=1e-2) < 1e-5
    predicted = {span.task for span in api.simulate(plan).spans}
    assert {span.task for span in measured.spans} == predicted


@pytest.mark.long
def test_another_file_is_refused(job, cluster, tmp_path):
    """A plan is of the code that it was made with; reading and simulating it runs none of that."""
    path = tmp_path / "plan.json"
    api.plan(job, cluster, path)
    job.model.build_file.write_text(SOURCE + "\n# edited\n")
    api.simulate(path)
    with pytest.raises(UserError, match=r"my_model.py:build: the file has changed since the plan was made"):
        api.run(path, tmp_path / "run")


def test_weights_of_another_module_are_refused(job, cluster, tmp_path):
    """Workers check the shapes of what they begin with."""
    plan = api.plan(job, cluster, tmp_path / "plan.json")
    with pytest.raises(UserError, match="not the weights of the plan's model"):
        Net({"first.weight": torch.zeros(2, 2)}, plan.cycle.cycle(), torch.device("cpu"))
    with pytest.raises(UserError, match=r"none\.pt: the first weights cannot be read"):
        read_weights(tmp_path / "none.pt")


@pytest.mark.long
def test_a_module_in_memory_is_trained_where_it_is(job, cluster, tmp_path):
    """From Python, with no files: the module that was given ends with the trained weights."""
    graph = load_graph(job.graph)
    module = module_of(job.model, 12, 4, SEED)
    before = {name: value.clone() for name, value in module.state_dict().items()}
    want = trained_modules.by_pyg(module, graph, EPOCHS)
    given = {"training": job.training.model_dump(), "pin": {"num_workers": 2}}
    with warm.runs():
        trained = api.train(given, cluster, tmp_path / "run", graph=graph, model=module)
    assert trained.model is module
    assert any(not torch.equal(value, before[name]) for name, value in module.state_dict().items())
    got = trained_modules.Outcome(list(trained.measured.losses), module.state_dict())
    assert got.off(want, nothing=1e-2) < 1e-5


def test_a_module_in_memory_must_be_passed(job, cluster, tmp_path):
    """To the plan's run too, where only its file is given."""
    graph, module = load_graph(job.graph), module_of(job.model, 12, 4, SEED)
    path = tmp_path / "plan.json"
    api.plan({"training": {"epochs": 1}}, cluster, path, graph=graph, model=module)
    with pytest.raises(UserError, match="pass it as model="):
        api.run(path, tmp_path / "run", graph=graph)
    with pytest.raises(UserError, match="leave one of them out"):
        api.plan({"model": "gcn", "graph": GRAPH}, cluster, path, model=module)
