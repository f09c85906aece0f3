"""The demo goes through all steps in one folder: each reads what the one before has left there."""

from contextlib import nullcontext

import pytest

from gnnplan.planner import api, demo, train
from gnnplan.planner.cluster import Cluster, resolve
from gnnplan.planner.compare import Comparison
from gnnplan.planner.graph_spec import SbmGraph
from gnnplan.planner.job import Job
from gnnplan.planner.model_spec import ModelSpec
from gnnplan.planner.plan import Plan
from gnnplan.planner.trace import Trace
from gnnplan.planner.training_spec import TrainingSpec
from gnnplan.profiles.catalog import catalog_profile
from gnnplan.profiles.errors import RunFailedError

SMALL = Job(
    name="small",
    graph=SbmGraph(source="sbm", num_nodes=200, average_degree=4, num_classes=3, num_features=8),
    model=ModelSpec(hidden_channels=16),
    training=TrainingSpec(epochs=3),
)


@pytest.fixture(autouse=True)
def nothing_measured(monkeypatch):
    """A small job on a machine of the catalog, whose runs go exactly as predicted; nothing is drawn."""

    def run(path, folder, *, graph, module, num_evaluations, checkpoints, on_event):
        on_event({"event": "epoch", "epoch": 0, "epochs": 1})
        (folder / "model.pt").touch()
        trace = api.simulate(Plan.load(path)).model_copy(update={"origin": "measured"})
        trace.save(folder / "measured.json")
        return trace

    def profile_machine(*, num_workers, quick, on_progress):
        assert quick
        on_progress(1, 1)
        return catalog_profile("t4").model_copy(update={"num_workers_beside": num_workers})

    monkeypatch.setattr(demo, "demo_job", lambda: SMALL)
    monkeypatch.setattr(train, "write_picture", lambda path, *_: path.touch())
    monkeypatch.setattr(train, "write_partition_picture", lambda path, *_: path.touch())
    monkeypatch.setattr(api, "profile_machine", profile_machine)
    monkeypatch.setattr(train, "run_plan", run)


def run_demo(folder, num_workers=2):
    """(comparison, files, what was shown, how often each bar moved)."""
    shown, moved = [], []
    comparison, files = demo.run_demo(
        folder,
        num_workers,
        bar=lambda *title: nullcontext(lambda *_: moved.append(title)),
        epochs_bar=lambda: nullcontext(moved.append),
        say=shown.append,
    )
    return comparison, files, shown, moved


@pytest.mark.long
@pytest.mark.parametrize("num_workers", [1, 2])
def test_every_step_leaves_its_file(num_workers, tmp_path):
    """Which users can go on from: plan the job again, simulate the plan, compare the traces."""
    comparison, files, shown, moved = run_demo(tmp_path, num_workers)
    assert {path.name for path in files.values()} == {path.name for path in tmp_path.iterdir()} - {"plan.partition.npz"}
    plan = Plan.load(files["plan"])
    assert plan.num_workers == num_workers
    assert Job.load(files["job"]).model_copy(update={"pin": SMALL.pin}) == SMALL
    workers = resolve(Cluster.load(files["cluster"])).workers
    assert [worker.host for worker in workers] == ["here"] * num_workers
    predicted, measured = (Trace.load(files[f"{side} trace"]) for side in ("predicted", "measured"))
    assert predicted.plan_fingerprint == measured.plan_fingerprint == plan.fingerprint()
    assert comparison == Comparison.load(files["comparison"]) == api.compare(predicted, measured)
    assert len(shown) == 2
    assert moved[0] == ("measuring this machine", "points")
    assert moved[1]["event"] == "epoch"


def test_a_run_that_fails_leaves_what_was_planned(tmp_path, monkeypatch):
    """One can look into it and run it again; there is no comparison."""

    def fail(*_, **__):
        raise RunFailedError("worker 1: lost")

    monkeypatch.setattr(train, "run_plan", fail)
    with pytest.raises(RunFailedError, match="worker 1: lost"):
        run_demo(tmp_path)
    kept = ["cluster.json", "job.json", "plan.json", "plan.partition.npz", "predicted.json", "profile.json"]
    assert sorted(path.name for path in tmp_path.iterdir()) == kept
