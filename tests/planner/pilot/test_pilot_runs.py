"""`gnnplan pilot` from the command line, by one process a family, and what it keeps."""

import json

import pytest

from gnnplan.planner.batch_spec import MiniBatchSpec
from gnnplan.planner.cli import main
from gnnplan.planner.graph_spec import SbmGraph
from gnnplan.planner.job import Job
from gnnplan.planner.model_spec import ModelSpec
from gnnplan.planner.pilot import kept as module
from gnnplan.planner.pilot.contract import Pilots


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    """A job, and where its curves are kept."""
    folder = tmp_path_factory.mktemp("pilot")
    spec = SbmGraph(source="sbm", num_nodes=300, average_degree=6, num_features=8, num_classes=3)
    batches = MiniBatchSpec(fan_outs=(4, 4), batch_size=60)
    job = Job(graph=spec, model=ModelSpec(kind="sage", hidden_channels=8), mini_batch=batches)
    return job.save(folder / "job.json"), folder / "pilots.json"


@pytest.mark.long
def test_both_families_are_trained_and_kept(files, capsys, monkeypatch):
    """A second time nothing is trained."""
    job, kept = files
    command = ["pilot", str(job), "--epochs", "3", "-o", str(kept), "--json"]
    assert main(command) == 0
    curves = json.loads(capsys.readouterr().out)["curves"]
    assert [curve["family"] for curve in curves] == ["full_batch", "mini_batch"]
    assert [len(curve["accuracies"]) for curve in curves] == [3, 3]
    assert len(Pilots.load(kept).curves) == 2
    monkeypatch.setattr(module, "run_pilots", None)
    assert main(command) == 0
    assert json.loads(capsys.readouterr().out)["curves"] == curves


def test_plans_need_an_accuracy(files, capsys):
    """In one line."""
    job, kept = files
    assert main(["pilot", str(job), "-o", str(kept), "--plans", str(kept)]) == 2
    assert capsys.readouterr().err.startswith("gnnplan: ")
