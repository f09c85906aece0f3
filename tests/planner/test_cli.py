"""The command line: plan and simulate end to end, and every bad input is one line and no file."""

import json
import shutil
import subprocess
import sys
from itertools import count

import numpy as np
import pytest

from gnnplan.planner.cli import main
from gnnplan.planner.cluster import Cluster
from gnnplan.profiles.catalog import catalog_profile

JOB = """
schema_version = 1
[graph]
source = "sbm"
num_nodes = 60
average_degree = 4
num_classes = 3
num_features = 8
[model]
hidden_channels = 16
"""
CLUSTER = """
schema_version = 1
[[hosts]]
name = "a"
[[hosts.devices]]
catalog = "t4"
count = 2
"""
VERBS = [
    "train",
    "profile",
    "plan",
    "explain",
    "diff",
    "report",
    "simulate",
    "run",
    "compare",
    "calibrate",
    "emulate",
    "demo",
    "whatif",
    "statistics",
]


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """The working folder with a job and a cluster."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "job.toml").write_text(JOB)
    (tmp_path / "cluster.toml").write_text(CLUSTER)
    return tmp_path


@pytest.fixture
def planned(folder, capsys):
    """The same folder with a plan in `made/`."""
    assert main(["plan", "job.toml", "cluster.toml", "-o", "made/plan.json"]) == 0
    capsys.readouterr()
    return folder


def files(folder):
    """Every file below a folder, hidden ones included."""
    return sorted(str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file())


def assert_refused(folder, capsys, argv, wanted, code=2):
    """`gnnplan argv` ends with `code`, one line on stderr, nothing on stdout and no new file."""
    before = files(folder)
    assert main(argv) == code
    out, every = capsys.readouterr()
    err = "".join(line for line in every.splitlines(True) if not line.startswith("choosing"))  # of a search of seconds
    assert err.startswith("gnnplan: ")
    assert err.count("\n") == 1
    assert err.endswith("\n")
    assert "Traceback" not in err
    assert wanted in err
    assert out == ""
    assert files(folder) == before


def test_plan_and_simulate_end_to_end(folder, capsys):
    """From two small files to a plan, its partition, a trace and a Perfetto file."""
    assert main(["plan", "job.toml", "cluster.toml", "-o", "out/plan.json"]) == 0
    assert "wrote out/plan.json" in capsys.readouterr().out
    assert main(["simulate", "out/plan.json", "-o", "out/trace.json", "--perfetto", "out/perfetto.json"]) == 0
    shown = capsys.readouterr().out
    assert "wrote out/trace.json" in shown
    assert "wrote out/perfetto.json" in shown
    wanted = ["out/perfetto.json", "out/plan.json", "out/plan.partition.npz", "out/trace.json"]
    assert files(folder) == ["cluster.toml", "job.toml", *wanted]


def test_json_prints_exactly_one_object(folder, capsys):
    """With --json stdout is one JSON object for each verb, and both name the same epoch."""
    facts = []
    for argv in (["plan", "job.toml", "cluster.toml", "-o", "p.json"], ["simulate", "p.json", "-o", "t.json"]):
        assert main([*argv, "--json"]) == 0
        out = capsys.readouterr().out
        assert out.count("\n") == 1
        facts.append(json.loads(out))
    assert facts[0]["plan"] == "p.json"
    assert facts[1]["trace"] == "t.json"
    assert facts[0]["epoch_s"] == facts[1]["epoch_s"] > 0
    assert 0 < facts[1]["epoch_p50_s"] <= facts[1]["epoch_p95_s"]


def test_planning_twice_writes_the_same_bytes(folder, capsys):
    """A plan depends on its inputs alone."""
    for name in ("a", "b"):
        assert main(["plan", "job.toml", "cluster.toml", "-o", f"{name}/plan.json"]) == 0
    assert (folder / "a/plan.json").read_bytes() == (folder / "b/plan.json").read_bytes()


def test_compare_writes_what_is_asked_for(planned, capsys):
    """Two traces of one plan become a comparison, a picture and a Perfetto file."""
    assert main(["simulate", "made/plan.json", "-o", "p.json"]) == 0
    raw = json.loads((planned / "p.json").read_text())
    (planned / "m.json").write_text(json.dumps(raw | {"origin": "measured"}))
    capsys.readouterr()
    outputs = ["-o", "c.json", "--picture", "c.png", "--perfetto", "c.perfetto.json"]
    assert main(["compare", "p.json", "m.json", *outputs, "--json"]) == 0
    shown = json.loads(capsys.readouterr().out)
    assert shown["only_predicted"] == shown["only_measured"] == []
    assert {"c.json", "c.png", "c.perfetto.json"} <= set(files(planned))


def test_catalog_is_listed(capsys):
    """The devices a cluster may name are one command away."""
    assert main(["profile", "--list", "--json"]) == 0
    assert "rtx-3090" in json.loads(capsys.readouterr().out)["catalog"]


PLAN = ["plan", "job.toml", "cluster.toml", "-o", "out.json"]
BAD_JOBS = {
    "malformed": ("[graph", "not valid TOML"),
    "empty": ("", "schema_version is missing"),
    "other version": (JOB.replace("schema_version = 1", "schema_version = 9"), "schema_version is 9"),
    "other kind": (f'kind = "plan"{JOB}', "this is a 'plan' file, a 'job' file is needed"),
    "missing key": ("schema_version = 1", "graph: this key is missing"),
    "unknown key": (JOB.replace("num_nodes", "num_vertices"), "graph.sbm.num_vertices: unknown key"),
    "too many workers": (f"{JOB}[pin]\nnum_workers = 9", "9 workers asked for"),
    "more workers than vertices": (JOB.replace("= 60", "= 1").replace("= 3", "= 1"), "2 workers for 1 vertices"),
    "missing graph": ("schema_version = 1\n[graph]\nsource = 'npz'\npath = 'g.npz'", "g.npz: no such file"),
}


@pytest.mark.parametrize("bad", BAD_JOBS)
def test_bad_job_is_one_line(bad, folder, capsys):
    """Exit code 2, the fault on stderr, no plan and no partition."""
    text, wanted = BAD_JOBS[bad]
    (folder / "job.toml").write_text(text)
    assert_refused(folder, capsys, PLAN, wanted)


BAD_CLUSTERS = {
    "malformed": ("hosts = [", "not valid TOML"),
    "unknown device": (CLUSTER.replace("t4", "t5"), "catalog device 't5' is unknown"),
    "both origins": (f'{CLUSTER}profile = "p.json"', "either catalog or profile"),
    "missing profile": (CLUSTER.replace('catalog = "t4"', 'profile = "p.json"'), "p.json: no such file"),
}


@pytest.mark.parametrize("bad", BAD_CLUSTERS)
def test_bad_cluster_is_one_line(bad, folder, capsys):
    """The same for the cluster."""
    text, wanted = BAD_CLUSTERS[bad]
    (folder / "cluster.toml").write_text(text)
    assert_refused(folder, capsys, PLAN, wanted)


def arrays(**changes):
    """A small graph as `.npz` arrays."""
    rng = np.random.default_rng(0)
    good = {
        "edge_index": rng.integers(0, 10, (2, 30)),
        "num_nodes": np.array(10),
        "x": rng.random((10, 4), np.float32),
        "y": np.arange(10) % 2,
    }
    return good | changes


BAD_ARRAYS = {
    "edge out of range": (arrays(edge_index=np.array([[0, 10], [1, 1]])), "10"),
    "negative edge": (arrays(edge_index=np.array([[0, -1], [1, 1]])), "-1"),
    "NaN features": (arrays(x=np.full((10, 4), np.nan, np.float32)), "NaN"),
    "rows missing": (arrays(x=np.zeros((9, 4), np.float32)), "features must have shape [10, F > 0]"),
    "no edges": ({key: value for key, value in arrays().items() if key != "edge_index"}, "edge_index"),
    "labels out of range": (arrays(y=np.arange(10) - 5), "y "),
}


@pytest.mark.parametrize("bad", [*BAD_ARRAYS, "damaged", "a folder", "empty"])
def test_bad_graph_file_is_one_line(bad, folder, capsys):
    """The line starts with the graph's file."""
    path = folder / "graph.npz"
    (folder / "job.toml").write_text("schema_version = 1\n[graph]\nsource = 'npz'\npath = 'graph.npz'\n")
    np.savez(path, **arrays())
    wanted = ""
    if bad == "damaged":
        path.write_bytes(path.read_bytes()[:-40])
    elif bad == "empty":
        path.write_bytes(b"")
    elif bad == "a folder":
        path.unlink()
        path.mkdir()
    else:
        values, wanted = BAD_ARRAYS[bad]
        np.savez(path, **values)
    assert_refused(folder, capsys, PLAN, f"{path}")
    main(PLAN)
    assert wanted in capsys.readouterr().err


def test_the_good_graph_file_is_planned(folder, capsys):
    """The faults above are the only ones: without them the file is fine."""
    (folder / "job.toml").write_text("schema_version = 1\n[graph]\nsource = 'npz'\npath = 'graph.npz'\n")
    np.savez(folder / "graph.npz", **arrays())
    assert main(PLAN) == 0


@pytest.mark.parametrize("argv", [["plan", "nope.toml", "cluster.toml"], ["plan", "job.toml", "nope.toml"],
                                  ["simulate", "nope.json"], ["run", "nope.json"],
                                  ["compare", "nope.json", "nope.json"],
                                  ["calibrate", "nope"]], ids=" ".join)  # fmt: skip
def test_missing_file_is_one_line(argv, folder, capsys):
    """Every verb that reads a file says which one is missing."""
    assert_refused(folder, capsys, argv, ": no such file")


@pytest.mark.parametrize("argv", [["plan", "dir", "cluster.toml"], ["plan", "job.toml", "dir"], ["simulate", "dir"],
                                  ["run", "dir"], ["compare", "dir", "dir"]], ids=" ".join)  # fmt: skip
def test_folder_instead_of_a_file_is_one_line(argv, folder, capsys):
    """A folder is no file."""
    (folder / "dir").mkdir()
    assert_refused(folder, capsys, argv, "dir: cannot be read as text")


@pytest.mark.long
@pytest.mark.parametrize("verb", ["simulate", "run"])
@pytest.mark.parametrize(
    ("change", "wanted"),
    [
        ({"schema_version": 3}, "schema_version is 3"),
        ({"kind": "job"}, "this is a 'job' file, a 'plan' file is needed"),
        ({"extra": 1}, "extra: unknown key"),
        ({"choices": []}, "choices: "),
    ],
)
def test_bad_plan_is_one_line(verb, change, wanted, planned, capsys):
    """A plan of another version or kind, or edited by hand, is refused by both verbs that read one."""
    path = planned / "made/plan.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | change))
    assert_refused(planned, capsys, [verb, str(path), "-o", "out"], wanted)


@pytest.fixture
def planned_on_cpu(folder, capsys):
    """The same folder with a plan for CPU workers in `made/`, so that it could run here."""
    catalog_profile("t4").model_copy(update={"device_kind": "cpu", "num_threads": 1}).save(folder / "slow.json")
    (folder / "here.toml").write_text(CLUSTER.replace('catalog = "t4"', 'profile = "slow.json"'))
    assert main(["plan", "job.toml", "here.toml", "-o", "made/plan.json"]) == 0
    capsys.readouterr()
    return folder


def test_running_the_plan_of_another_graph_is_one_line(planned_on_cpu, capsys):
    """The graph is loaded again, and what is not the planned one is not trained on."""
    path = planned_on_cpu / "made/plan.json"
    raw = json.loads(path.read_text())
    raw["job"]["graph"]["seed"] = 1
    path.write_text(json.dumps(raw))
    assert_refused(planned_on_cpu, capsys, ["run", str(path), "-o", "out"], "make a new plan")


def test_running_without_the_partition_is_one_line(planned_on_cpu, capsys):
    """The partition has to lie beside the plan."""
    (planned_on_cpu / "made/plan.partition.npz").unlink()
    assert_refused(planned_on_cpu, capsys, ["run", "made/plan.json", "-o", "out"], "partition is missing")


def test_comparing_in_the_wrong_order_is_one_line(planned, capsys):
    """A predicted trace is no measured one."""
    assert main(["simulate", "made/plan.json", "-o", "p.json"]) == 0
    capsys.readouterr()
    argv = ["compare", "p.json", "p.json", "-o", "c.json", "--picture", "c.png", "--perfetto", "c.perfetto"]
    assert_refused(planned, capsys, argv, "a predicted trace and a measured one")


@pytest.mark.long
@pytest.mark.parametrize(
    "argv",
    [
        ["plan", "job.toml", "cluster.toml", "-o"],
        ["simulate", "made/plan.json", "-o"],
        ["simulate", "made/plan.json", "-o", "trace.json", "--perfetto"],
        ["compare", "p.json", "m.json", "-o"],
        ["compare", "p.json", "m.json", "-o", "c.json", "--perfetto"],
        ["compare", "p.json", "m.json", "-o", "c.json", "--picture"],
    ],
    ids=" ".join,
)
@pytest.mark.parametrize("output", ["dir", "job.toml/out.json"], ids=["a folder", "below a file"])
def test_unwritable_output_is_one_line_and_no_other_output(argv, output, planned, capsys):
    """One output that cannot be written means that none is."""
    (planned / "dir").mkdir()
    assert main(["simulate", "made/plan.json", "-o", "p.json"]) == 0
    measured = json.loads((planned / "p.json").read_text()) | {"origin": "measured"}
    (planned / "m.json").write_text(json.dumps(measured))
    capsys.readouterr()
    assert_refused(planned, capsys, [*argv, output], output)


@pytest.mark.long
def test_no_plan_fits_exits_with_three(folder, capsys):
    """The nearest miss is one line with the bytes that are missing."""
    (folder / "cluster.toml").write_text(f"{CLUSTER}memory_bytes = 1000\n")
    assert_refused(folder, capsys, PLAN, "bytes are missing", code=3)


def test_a_failed_plan_leaves_the_old_one(planned, capsys):
    """What was there before stays as it was."""
    before = (planned / "made/plan.json").read_bytes()
    (planned / "job.toml").write_text("")
    assert_refused(planned, capsys, ["plan", "job.toml", "cluster.toml", "-o", "made/plan.json"], "schema_version")
    assert (planned / "made/plan.json").read_bytes() == before


@pytest.mark.parametrize("verb", VERBS)
def test_help_holds_an_example(verb, capsys):
    """Every verb shows a command to copy."""
    with pytest.raises(SystemExit) as ended:
        main([verb, "--help"])
    assert ended.value.code == 0
    assert f"example: gnnplan {verb}" in " ".join(capsys.readouterr().out.split())


@pytest.mark.parametrize("verb", VERBS)
def test_overall_help_lists_every_verb(verb, capsys):
    """`gnnplan --help` names all there is."""
    with pytest.raises(SystemExit):
        main(["--help"])
    assert verb in [line.split()[0] for line in capsys.readouterr().out.splitlines() if line[:4].isspace()]


@pytest.mark.parametrize("argv", [[], ["fly"], ["plan"], ["demo", "--workers", "0"], ["run", "p", "--timeout", "-1"]])
def test_wrong_usage_exits_with_two(argv, capsys):
    """Unknown verbs, missing arguments and impossible numbers are user errors."""
    with pytest.raises(SystemExit) as ended:
        main(argv)
    assert ended.value.code == 2
    assert "gnnplan" in capsys.readouterr().err


def test_interruption_is_one_line(folder, capsys, monkeypatch):
    """Ctrl-C ends with the shell's code for it and no traceback."""

    def interrupted(*_arguments, **_more):
        raise KeyboardInterrupt

    monkeypatch.setattr("gnnplan.planner.given.load_graph", interrupted)
    assert_refused(folder, capsys, PLAN, "interrupted", code=130)


_seconds = count()  # no two runs are set up in the same time


_runs = {}  # by cluster file, the files of a run's folder: planning it once more would give the same


def measured_run(path, *, cluster=CLUSTER):
    """A run folder whose plan went exactly as predicted."""
    path.mkdir()
    (path / "cluster.toml").write_text(cluster)
    plan, trace = str(path / "plan.json"), path / "measured.json"
    if cluster not in _runs or "profile" in cluster:  # which may be another under the same name
        (path / "job.toml").write_text(f"{JOB}[pin]\nnum_workers = 2\n")
        assert main(["plan", str(path / "job.toml"), str(path / "cluster.toml"), "-o", plan, "--json"]) == 0
        assert main(["simulate", plan, "-o", str(trace), "--json"]) == 0
        _runs[cluster] = {file.name: file.read_bytes() for file in path.iterdir()}
    for name, content in _runs[cluster].items():
        (path / name).write_bytes(content)
    change(trace, origin="measured", setup_s=float(next(_seconds)))


def change(path, **changes):
    """Replaces keys of a JSON file."""
    path.write_text(json.dumps(json.loads(path.read_text()) | changes))


TWO_HOSTS = f"{CLUSTER}[[hosts]]\nname = 'b'\n[[hosts.devices]]\ncatalog = 'gtx-1650'\n".replace("count = 2", "")


@pytest.mark.long
def test_calibrate_writes_the_new_profile(folder, capsys):
    """One profile is one file, which a cluster can name."""
    measured_run(folder / "one")
    measured_run(folder / "two")
    capsys.readouterr()
    assert main(["calibrate", "one", "two", "-o", "new/here.json", "--json"]) == 0
    shown = json.loads(capsys.readouterr().out)
    assert shown["files"] == ["new/here.json"]
    (folder / "new/cluster.toml").write_text(CLUSTER.replace('catalog = "t4"', 'profile = "here.json"'))
    assert main(["plan", "job.toml", "new/cluster.toml", "-o", "p.json"]) == 0
    assert json.loads((folder / "new/here.json").read_text())["name"] == "t4"


@pytest.mark.long
def test_calibrate_writes_a_folder_of_several_profiles(folder, capsys):
    """Each under its name, as `gnnplan profile --cluster` does."""
    measured_run(folder / "one", cluster=TWO_HOSTS)
    capsys.readouterr()
    assert main(["calibrate", "one", "-o", "new"]) == 0
    out = capsys.readouterr().out
    assert "wrote new/t4.json" in out
    assert "wrote new/gtx-1650.json" in out
    assert [name for name in files(folder) if name.startswith("new/")] == ["new/gtx-1650.json", "new/t4.json"]


@pytest.mark.long
@pytest.mark.parametrize("cluster", [CLUSTER, TWO_HOSTS], ids=["one profile", "two profiles"])
def test_calibrate_writes_the_cluster_of_the_new_profiles(cluster, folder, capsys):
    """With all that its file says, which plans do not hold, so that it can be planned for and emulated."""
    measured_run(folder / "one", cluster=f"{cluster}[network]\nbytes_per_s = 1e8\n")
    capsys.readouterr()
    assert main(["calibrate", "one", "--cluster", "one/cluster.toml", "-o", "new", "--json"]) == 0
    written = json.loads(capsys.readouterr().out)["files"]
    assert sorted(written) == [name for name in files(folder) if name.startswith("new/")]
    old, new = Cluster.load("one/cluster.toml"), Cluster.load("new/cluster.json")
    assert new.network == old.network
    for before, after in zip(old.hosts, new.hosts, strict=True):
        profiles = tuple(folder / "new" / f"{device.catalog}.json" for device in before.devices)
        assert tuple(device.profile for device in after.devices) == profiles
        assert after.model_copy(update={"devices": before.devices}) == before
    assert main(["plan", "job.toml", "new/cluster.json", "-o", "p.json"]) == 0


@pytest.mark.long
@pytest.mark.parametrize(
    ("cluster", "wanted"),
    [
        ("one/other.toml", "one/other.toml: none of its profiles is one that these runs were planned with"),
        ("new/cluster.json", "new/cluster.json: what was calibrated is in this file"),
        ("nope.toml", "nope.toml: no such file"),
    ],
)
def test_a_cluster_that_calibrate_cannot_write_is_one_line(cluster, wanted, folder, capsys):
    """One of other profiles, one that would be lost, none; nothing is written then."""
    measured_run(folder / "one")
    (folder / "one/other.toml").write_text(CLUSTER.replace("t4", "l4"))
    (folder / "new").mkdir()
    Cluster.load("cluster.toml").save("new/cluster.json")
    capsys.readouterr()
    assert_refused(folder, capsys, ["calibrate", "one", "--cluster", cluster, "-o", "new"], wanted)


@pytest.mark.long
def test_the_profile_that_was_calibrated_is_not_written_over(folder, capsys):
    """Nobody could go back to it; a calibrated one of before may be. The cluster can be told to name the new one."""
    catalog_profile("t4").model_copy(update={"device_kind": "cpu"}).save(folder / "t4.json")
    measured_run(folder / "one", cluster=CLUSTER.replace('catalog = "t4"', 'profile = "../t4.json"'))
    capsys.readouterr()
    wanted = "t4.json: what was calibrated is in this file"
    assert_refused(folder, capsys, ["calibrate", "one", "-o", "t4.json"], wanted)
    for _ in range(2):
        assert main(["calibrate", "one", "-o", "new.json"]) == 0
    assert main(["calibrate", "one", "--cluster", "one/cluster.toml", "-o", "new"]) == 0
    (host,) = Cluster.load("new/cluster.json").hosts
    assert [device.profile for device in host.devices] == [folder / "new" / "t4.json"]


def test_a_run_is_not_counted_twice(folder, capsys):
    """By its own name or by another."""
    measured_run(folder / "one")
    shutil.copytree(folder / "one", folder / "copy")
    capsys.readouterr()
    for other in ("one", "copy"):
        assert_refused(folder, capsys, ["calibrate", "one", other, "-o", "new.json"], f"{other}: the same run as one")


@pytest.mark.long
def test_calibrate_says_which_runs_were_disturbed(folder, capsys):
    """Those with processor time stolen from them; the others are not named."""
    for name, share in (("calm", 0.01), ("stolen", 0.3)):
        measured_run(folder / name)
        change(folder / name / "measured.json", stolen_share=share)
    capsys.readouterr()
    assert main(["calibrate", "calm", "stolen", "-o", "new.json"]) == 0
    out = " ".join(capsys.readouterr().out.split())
    assert "stolen: 30% of the processor time went to other virtual machines" in out
    assert "calm:" not in out
    assert main(["calibrate", "calm", "stolen", "-o", "new.json", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["stolen_shares"] == {"calm": 0.01, "stolen": 0.3}


def test_profile_names_only_the_files_it_wrote(folder, capsys, monkeypatch):
    """The folder may hold others."""
    monkeypatch.setattr(
        "gnnplan.planner.cluster_profiles.profile_hosts",
        lambda counts, **_: dict.fromkeys(counts, catalog_profile("t4")),
    )
    (folder / "out").mkdir()
    (folder / "out/plan.json").write_text("{}")
    assert main(["profile", "--cluster", "cluster.toml", "-o", "out", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["files"] == ["out/a.json", "out/cluster.json"]


@pytest.mark.long
@pytest.mark.parametrize(
    ("file", "changes", "wanted"),
    [
        ("measured.json", {}, "run/measured.json: no such file"),
        ("measured.json", {"spans": []}, "run: the trace holds no traced epochs"),
        ("measured.json", {"origin": "predicted"}, "run: calibrate needs a measured trace"),
        ("measured.json", {"plan_fingerprint": "0" * 16}, "run: the trace belongs to plan 0000"),
        ("plan.json", {"partition_file": "other.npz"}, "run: the trace belongs to plan"),
        ("plan.json", {"choices": []}, "run/plan.json: "),
    ],
)
def test_a_bad_run_to_calibrate_on_is_one_line(file, changes, wanted, folder, capsys):
    """Also beside a good one: nothing is written."""
    measured_run(folder / "good")
    measured_run(folder / "run")
    if changes:
        change(folder / "run" / file, **changes)
    else:
        (folder / "run" / file).unlink()
    capsys.readouterr()
    assert_refused(folder, capsys, ["calibrate", "good", "run", "-o", "new.json"], wanted)


@pytest.mark.long
def test_calibrating_on_runs_of_different_profiles_is_one_line(folder, capsys):
    """Two versions of one profile cannot both be the one to correct."""
    measured_run(folder / "one")
    assert main(["calibrate", "one", "-o", "t4.json"]) == 0
    measured_run(folder / "two", cluster=CLUSTER.replace('catalog = "t4"', 'profile = "../t4.json"'))
    change(folder / "t4.json", step_overhead_s=1.0)
    measured_run(folder / "three", cluster=CLUSTER.replace('catalog = "t4"', 'profile = "../t4.json"'))
    capsys.readouterr()
    assert_refused(folder, capsys, ["calibrate", "two", "three", "-o", "new.json"], "three: profile 't4' is ")


@pytest.mark.parametrize("cluster", [CLUSTER, TWO_HOSTS], ids=["one profile", "two profiles"])
def test_unwritable_calibration_is_one_line(cluster, folder, capsys):
    """A folder is no file for one profile, a file no folder for two."""
    measured_run(folder / "one", cluster=cluster)
    capsys.readouterr()
    output = "one" if cluster == CLUSTER else "job.toml"
    assert_refused(folder, capsys, ["calibrate", "one", "-o", output], output)


@pytest.mark.parametrize(
    ("rest", "wanted"),
    [
        ([], "no command given; put it after --"),
        (["--"], "no command given; put it after --"),
        (["--weather", "w.toml", "--", "true"], "--weather stands after the cluster file; put options before it"),
    ],
)
def test_what_emulate_is_not_given_is_one_line(rest, wanted, folder, capsys):
    """Before anything is brought up; an option in the wrong place is not taken for the command."""
    assert_refused(folder, capsys, ["emulate", "cluster.toml", *rest], wanted)


def test_an_objective_is_planned_for_or_refused(folder, capsys):
    """Where its limits cannot be kept with exit code 3, and no file is left."""
    priced = CLUSTER.replace('name = "a"', 'name = "a"\nprice_per_hour = 2.0')
    (folder / "priced.toml").write_text(priced)
    assert main(["plan", "job.toml", "priced.toml", "--objective", "money", "-o", "plan.json"]) == 0
    shown = " ".join(capsys.readouterr().out.split())
    assert "objective least dollars by mean: 100 epochs in" in shown
    assert "of what was searched:" in shown
    assert main(["plan", "job.toml", "priced.toml", "--deadline", "1e-9", "-o", "late.json"]) == 3
    assert "no plan keeps the limits: the nearest needs" in capsys.readouterr().err
    assert not (folder / "late.json").exists()
    assert main(["plan", "job.toml", "cluster.toml", "--budget", "1", "-o", "late.json"]) == 2
    assert "price_per_hour" in capsys.readouterr().err


def test_the_package_is_the_command():
    """Where no script is on the path."""
    ran = subprocess.run([sys.executable, "-m", "gnnplan", "--help"], capture_output=True, text=True, timeout=60)
    assert ran.returncode == 0
    assert ran.stdout.startswith("usage: gnnplan ")
