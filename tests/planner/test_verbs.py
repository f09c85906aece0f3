"""`import gnnplan` and its verbs: files or objects, graphs in memory, short reprs, HTML for notebooks."""

import subprocess
import sys

import numpy as np
import pytest
import torch
from torch_geometric.data import Data

import gnnplan
from gnnplan.planner import api, train
from gnnplan.planner.cluster import Cluster, resolve
from gnnplan.planner.given import graph_of, job_of, output_folder
from gnnplan.planner.job import Job
from gnnplan.planner.plan import Plan
from gnnplan.planner.sweep.contract import Sweep
from gnnplan.profiles.catalog import catalog_profile
from gnnplan.profiles.errors import UserError
from tests.planner.verbs_job import JOB, run_as_predicted

T4 = {"hosts": [{"name": "box", "price_per_hour": 36.0, "devices": [{"catalog": "t4", "count": 2}]}]}


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """The working folder; what is kept is kept below it, and runs go as predicted."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("GNNPLAN_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(train, "run_plan", run_as_predicted)
    monkeypatch.setattr(api, "run_plan", run_as_predicted)
    return tmp_path


@pytest.fixture
def plan(folder):
    """Of a dict and a profile."""
    return gnnplan.plan(JOB, catalog_profile("t4"))


def data_in_memory():
    """A PyG graph whose labels are in its features."""
    rng = np.random.default_rng(0)
    y = torch.from_numpy(rng.integers(0, 3, 60))
    edges = torch.from_numpy(rng.integers(0, 60, (2, 240)))
    return Data(x=torch.eye(3)[y] + 0.1, edge_index=edges, y=y)


def test_importing_imports_nothing_heavy():
    """The verbs come when they are first used."""
    code = (
        "import sys, gnnplan; assert 'plan' in dir(gnnplan); print([m for m in ('torch', 'numpy') if m in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=True)
    assert done.stdout.strip() == "[]"


def test_dir_shows_the_verbs_and_nothing_else():
    """As tab completion asks for it: what is there, none of what the file imports."""
    shown = [name for name in dir(gnnplan) if not name.startswith("_")]
    assert shown == sorted({*gnnplan.__all__, "planner", "profiles", "runtime"})


@pytest.mark.parametrize("name", gnnplan.__all__)
def test_every_name_is_there(name):
    """And is what the planner has under it."""
    assert callable(getattr(gnnplan, name))


def test_what_is_no_verb_is_no_attribute():
    """As of any module."""
    with pytest.raises(AttributeError, match="no attribute 'fly'"):
        gnnplan.fly  # noqa: B018


@pytest.mark.long
def test_files_and_objects_are_the_same(plan, folder):
    """A job by dict, object or file; a plan by object or file; a trace too."""
    path = plan.job.save(folder / "job.json")
    for job in (Job.parse({"schema_version": 1, **JOB}, where="job"), path, str(path)):
        assert gnnplan.plan(job, catalog_profile("t4"), folder / "again" / "plan.json") == plan
    predicted = gnnplan.simulate(plan, 100)
    assert predicted == gnnplan.simulate(plan.file, 100)
    measured = gnnplan.run(plan, folder)
    of_objects = gnnplan.compare(predicted, measured)
    assert of_objects == gnnplan.compare(predicted.save(folder / "p.json"), folder / "measured.json")


def test_plans_go_to_a_folder_named_after_the_job(plan, folder):
    """Never into the current one; a job without a name has its file's."""
    assert plan.file == output_folder(plan.job) / "plan.json"
    assert sorted(path.name for path in folder.iterdir()) == ["cache", "out"]
    nameless = plan.job.model_copy(update={"name": "job"})
    assert output_folder(nameless, "a/cora 2.toml") == output_folder(nameless.model_copy(update={"name": "cora-2"}))
    assert str(output_folder(nameless.model_copy(update={"name": "../../etc"}))) == "out/etc"


@pytest.mark.long
def test_a_graph_in_memory_is_trained_on(folder):
    """A PyG `Data` needs no file; what would load it again asks for it."""
    data = data_in_memory()
    job = {"model": "gcn", "epochs": 3, "name": "mine"}
    trained = gnnplan.train(job, catalog_profile("t4"), graph=data)
    assert trained.plan.graph.num_nodes == 60
    assert trained.plan.job.graph.source == "memory"
    with pytest.raises(UserError, match="given in memory; pass it again"):
        gnnplan.plan(trained.plan.job, catalog_profile("t4"))
    assert gnnplan.plan(trained.plan.job, catalog_profile("t4"), graph=data) == trained.plan


@pytest.mark.parametrize("given", [Data(x=torch.ones(3, 2)), "a word", {"x": 1}])
def test_what_is_no_graph_is_refused(given, folder):
    """In a sentence."""
    with pytest.raises(UserError, match="edge_index"):
        gnnplan.plan({"model": "gcn"}, catalog_profile("t4"), graph=given)


def test_training_leaves_every_file(folder):
    """Plan, traces, model, comparison and pictures, in the folder of the job."""
    told = []
    trained = gnnplan.train(JOB, catalog_profile("t4"), on_plan=told.append, on_event=told.append)
    assert all(path.exists() for path in trained.files.values())
    assert {path.parent.name for path in trained.files.values()} == {"small"}
    assert told[0] == trained.plan
    assert told[1]["event"] == "epoch"
    assert trained.comparison.figure("epoch").predicted == trained.predicted.expected_epoch_s


def test_this_machine_is_what_is_meant_without_a_cluster(folder, monkeypatch):
    """By the profile that is kept of it."""
    profile = catalog_profile("t4").model_copy(update={"num_workers_beside": 2, "name": "kept"})
    path = profile.save(folder / "kept.json")
    monkeypatch.setattr("gnnplan.planner.here.kept_profile", lambda **_: (profile, path))
    assert set(gnnplan.plan(JOB).placement.profiles) == {f"kept@{profile.fingerprint()}"}


@pytest.fixture
def returned(plan, folder):
    """What the verbs return, by name."""
    trained = gnnplan.train(JOB, catalog_profile("t4"))
    other = gnnplan.plan({**JOB, "training": {"epochs": 4}}, catalog_profile("v100"), folder / "other.json")
    sweep = {"schema_version": 1, "name": "some", "device": {}, "machines": [{"devices": ["t4"], "hosts": [1, 2]}]}
    return {
        "plan": plan,
        "trained": trained,
        "trace": trained.predicted,
        "comparison": trained.comparison,
        "profile": catalog_profile("t4"),
        "explanation": gnnplan.explain(plan),
        "difference": gnnplan.diff(plan, other),
        "statistics": gnnplan.statistics(JOB),
        "sweep": gnnplan.whatif(JOB, Sweep.parse(sweep, where="sweep")),
        "calibration": gnnplan.calibrate([(plan, trained.measured)]),
        "graph": gnnplan.load_graph(plan.job.graph),
        "job": plan.job,
    }


@pytest.mark.long
def test_what_verbs_return_is_shown_in_short(returned):
    """Ten lines at most, and none is endless. Notebooks show tables, of what has one."""
    for name, each in returned.items():
        for text in (repr(each), str(each)):
            assert len(text.splitlines()) <= 10, name
            assert len(text) < 700, name
    for name in returned.keys() - {"calibration", "graph", "job"}:
        html = returned[name]._repr_html_()
        assert html.startswith("<pre"), name
        assert "<script" not in html


def test_a_plan_that_was_never_written_does_not_run(plan):
    """Its arrays lie beside a file."""
    nowhere = Plan.model_validate(plan.model_dump())
    assert nowhere == plan
    with pytest.raises(UserError, match="this plan has no file"):
        gnnplan.run(nowhere, "run")


@pytest.mark.long
def test_choices_stand_side_by_side(folder, monkeypatch):
    """With one load of the graph: seconds, dollars of the hosts that are used, and why one has no plan."""
    cluster = Cluster.model_validate(T4 | {"name": "two"})
    tiny = Cluster.model_validate(
        {"name": "tiny", "hosts": [{"name": "b", "devices": [{"catalog": "t4", "memory_bytes": 9}]}]}
    )
    loads = []
    load = api.load_graph
    monkeypatch.setattr("gnnplan.planner.given.load_graph", lambda spec: loads.append(spec) or load(spec))
    two, none = gnnplan.choices(JOB, [cluster, tiny])
    assert len(loads) == 1
    assert two.plan.file.exists()
    assert two.plan.placement.price_per_hour == 36.0
    assert none.plan is None
    assert "bytes are missing" in none.reason
    with pytest.raises(UserError, match="two clusters are called 'two'"):
        gnnplan.choices(JOB, [cluster, cluster])


def test_prices_are_of_hosts_not_of_devices():
    """And a host that has no worker is not paid for."""
    hosts = [{"name": name, "price_per_hour": 2.0, "devices": [{"catalog": "t4", "count": 3}]} for name in "ab"]
    placement = resolve(Cluster.model_validate({"hosts": hosts}))
    assert placement.price_per_hour == 4.0
    assert placement.of([0, 1]).price_per_hour == 2.0


@pytest.mark.parametrize(("device", "bytes_per_s"), [("rtx-3090", 6.3e9), ("h200", 12e9)])
def test_the_default_link_is_no_better_than_the_slots(device, bytes_per_s):
    """PCIe 3.0 x16, unless a device's own slot is slower; what the cluster names stands."""
    hosts = [{"name": "a", "devices": [{"catalog": device, "count": 2}]}]
    placement = resolve(Cluster.model_validate({"hosts": hosts}))
    assert placement.is_default_link
    assert placement.device_link.bytes_per_s == pytest.approx(bytes_per_s, rel=0.01)
    named = resolve(Cluster.model_validate({"hosts": hosts, "device_link": {"bytes_per_s": 9e9}}))
    assert (named.is_default_link, named.device_link.bytes_per_s) == (False, 9e9)


def test_options_of_the_jobs_graph_hold_for_one_in_memory(folder):
    """Whatever the source that it names, or none."""
    data, asked = data_in_memory(), {"make_undirected": True, "normalize_features": True, "train_fraction": 0.5}
    before = data.x.clone()
    for graph in ({"source": "npz", "path": "of_old.npz", **asked}, asked):
        job = job_of({**JOB, "graph": graph}, data)
        found = graph_of(data, job)
        assert set(map(tuple, found.edge_index.T)) == set(map(tuple, found.edge_index[::-1].T))
        assert found.x.sum(1) == pytest.approx(np.ones(60))
        assert found.train_mask.sum() == 30
    assert torch.equal(data.x, before)


def test_mini_batches_take_no_graph_in_memory(folder):
    """Their workers load it."""
    job = {**JOB, "mini_batch": {"fan_outs": [4, 4]}}
    with pytest.raises(UserError, match="workers of mini-batches load the graph"):
        gnnplan.train(job, graph=data_in_memory())
