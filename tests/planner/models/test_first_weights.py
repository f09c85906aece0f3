"""What training begins with is PyG's, or the module's, for equal seeds the same."""

import os
import subprocess
import sys

import pytest
import torch
from torch import nn

from gnnplan.planner.graph_spec import SbmGraph
from gnnplan.planner.job import Job
from gnnplan.planner.model_spec import ModelSpec
from gnnplan.planner.models.first_weights import first_weights
from gnnplan.planner.models.pyg_models import build_pyg_model
from gnnplan.planner.training_spec import TrainingSpec

SOURCE = (
    "from torch import nn\n\ndef build(num_features, num_classes):\n    return nn.Linear(num_features, num_classes)\n"
)


def job_of(model, seed=1):
    return Job(graph=SbmGraph(source="sbm"), model=model, training=TrainingSpec(seed=seed))


@pytest.mark.parametrize("kind", ["gcn", "sage", "gat", "gin", "tagcn", "sgc", "appnp", "decoupled_gat"])
def test_they_are_pygs(kind):
    """Every key with its values; another seed draws others; nobody shares their memory."""
    model = ModelSpec(kind=kind, hidden_channels=8, heads=2)
    want, found = build_pyg_model(model, 6, 3, seed=1).state_dict(), first_weights(job_of(model), 6, 3)
    assert found.keys() == want.keys()
    assert all(torch.equal(found[name], want[name]) for name in want)
    other = first_weights(job_of(model, seed=2), 6, 3)
    assert any(not torch.equal(found[name], other[name]) for name in found)


def test_a_modules_are_its_own(tmp_path):
    """As its function builds it, without a hold on what the program has."""
    (tmp_path / "my_model.py").write_text(SOURCE)
    job = job_of(ModelSpec(kind="module", build=f"{tmp_path / 'my_model.py'}:build"))
    found, again = (first_weights(job, 6, 3) for _ in range(2))
    assert {name: tuple(each.shape) for name, each in found.items()} == {"weight": (3, 6), "bias": (3,)}
    assert torch.equal(found["weight"], again["weight"])
    held = torch.nn.Linear(6, 3)
    model = ModelSpec(kind="module")
    model.holding(held)
    first_weights(job_of(model), 6, 3)["weight"].fill_(7)
    assert not (held.weight == 7).any()


@pytest.mark.long
def test_nothing_of_it_stays_among_temporary_files(tmp_path):
    """Neither code that PyG generates, nor a cache of torch's compiler."""
    (tmp_path / "torchinductor_somebody").mkdir()
    code = (
        "from gnnplan.planner.graph_spec import SbmGraph\n"
        "from gnnplan.planner.job import Job\n"
        "from gnnplan.planner.model_spec import ModelSpec\n"
        "from gnnplan.planner.models.first_weights import first_weights\n"
        "first_weights(Job(graph=SbmGraph(source='sbm'), model=ModelSpec(kind='gat')), 6, 3)"
    )
    environment = {**os.environ, "TMPDIR": str(tmp_path)}
    subprocess.run([sys.executable, "-c", code], env=environment, check=True, timeout=120)
    assert [path.name for path in tmp_path.iterdir()] == ["torchinductor_somebody"]


def test_what_has_two_names_stays_one(tmp_path):
    """Also in a file: else the name that nothing trains would keep what training began with."""
    held = nn.Sequential(nn.Linear(3, 3), nn.BatchNorm1d(3))
    held.append(held[0]).append(held[1])
    model = ModelSpec(kind="module")
    model.holding(held)
    torch.save(first_weights(job_of(model), 3, 3), tmp_path / "w.pt")
    found = torch.load(tmp_path / "w.pt", weights_only=True)
    found["0.weight"].fill_(7)
    found["1.running_mean"].fill_(7)
    assert (found["2.weight"] == 7).all()
    assert (found["3.running_mean"] == 7).all()
    assert not (found["0.bias"] == 7).any()
