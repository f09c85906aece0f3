"""The command line's one verb to the main job, and plans for this machine, for a profile, and for several clusters."""

import json

import pytest

from gnnplan.planner import commands, train
from gnnplan.planner.checkpoints import CheckpointOptions
from gnnplan.planner.cli import main
from gnnplan.planner.here import cluster_of_profile
from gnnplan.planner.plan import Plan
from gnnplan.profiles.catalog import catalog_profile
from tests.planner.verbs_job import JOB, run_as_predicted

SHORT = 'graph = "sbm"\nmodel = "gcn"\nepochs = 3\n'
CLUSTER = """
schema_version = 1
[[hosts]]
name = "a"
price_per_hour = {price}
[[hosts.devices]]
catalog = "{device}"
"""


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """The working folder with a job, and this machine with a profile that is kept; runs go as predicted."""
    (tmp_path / "small.json").write_text(json.dumps({"schema_version": 1, **JOB, "name": "job"}))
    profile = catalog_profile("t4")
    path = profile.save(tmp_path / "kept.json")
    asked = []

    def here(**options):
        asked.append(options)
        return cluster_of_profile(profile, path)

    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(commands, "this_machine", here)
    monkeypatch.setattr(train, "run_plan", run_as_predicted)
    monkeypatch.setattr(commands, "asked", asked, raising=False)
    return tmp_path


def names(folder):
    """Of the files in a folder."""
    return {path.name for path in folder.iterdir()}


def test_train_does_all_of_it(folder, capsys):
    """From a job to a comparison: every file in a folder named after the job's file, the tables on stdout."""
    assert main(["train", "small.json"]) == 0
    out, _ = capsys.readouterr()
    assert names(folder / "out" / "small") == {
        *("plan.json", "plan.partition.npz", "predicted.json", "measured.json", "comparison.json", "model.pt"),
        *("perfetto.json", "epoch.png", "partition.png"),
    }
    assert "predicted against measured" in out
    assert "val accuracy" in out
    assert "considered" in out
    assert commands.asked[0]["fresh"] is False


def test_train_as_one_object(folder, capsys):
    """With --json the comparison and the files, and nothing else; --fresh and --workers reach the profiler."""
    assert main(["train", "small.json", "-o", "here", "--json", "--fresh", "--workers", "1"]) == 0
    facts = json.loads(capsys.readouterr().out)
    assert facts["files"]["plan"] == "here/plan.json"
    assert facts["accuracy"] == {"val": 0.5}
    assert (commands.asked[0]["fresh"], commands.asked[0]["num_workers"]) == (True, 1)


@pytest.mark.long
def test_going_on_it_has_the_plan_that_is_there(folder, capsys, monkeypatch):
    """Without planning again, where the plan is of this job; options of checkpoints reach the run."""
    seen = []

    def run(*arguments, checkpoints=None, **options):
        seen.append(checkpoints)
        return run_as_predicted(*arguments, **options)

    monkeypatch.setattr(train, "run_plan", run)
    assert main(["train", "small.json", "-o", "here", "--keep", "3", "--checkpoint-every", "5"]) == 0
    made = Plan.load(folder / "here" / "plan.json")
    monkeypatch.setattr(train, "write_plan", lambda *_: pytest.fail("it was planned again"))
    assert main(["train", "small.json", "-o", "here", "--resume"]) == 0
    assert Plan.load(folder / "here" / "plan.json") == made
    assert seen == [CheckpointOptions.of(5, 3), CheckpointOptions(resume=True)]


@pytest.mark.long
def test_going_on_with_another_job_it_is_planned(folder, capsys):
    """What can be taken over is a matter of the checkpoint."""
    assert main(["train", "small.json", "-o", "here"]) == 0
    (folder / "small.json").write_text(json.dumps({"schema_version": 1, **JOB, "name": "job", "fidelity": "stale"}))
    assert main(["train", "small.json", "-o", "here", "--resume"]) == 0
    assert Plan.load(folder / "here" / "plan.json").job.fidelity == "stale"


@pytest.mark.parametrize("words", [["--checkpoint-every", "10m"], ["--keep", "0"], ["--keep", "1001"]])
def test_options_of_checkpoints_are_checked(folder, capsys, words):
    """Before anything is measured."""
    with pytest.raises(SystemExit, match="2"):
        main(["train", "small.json", *words])
    assert words[1] in capsys.readouterr().err


def test_three_lines_are_enough(folder, capsys):
    """As a job file."""
    (folder / "short.toml").write_text(SHORT.replace("sbm", "missing.npz"))
    assert main(["train", "short.toml"]) == 2
    assert "missing.npz: no such file" in capsys.readouterr().err


def test_a_profile_is_a_cluster(folder, capsys):
    """Of the machine that it was measured on; without one this machine is meant."""
    assert main(["plan", "small.json", "kept.json"]) == 0
    assert commands.asked == []
    of_file = Plan.load("out/small/plan.json")
    assert main(["plan", "small.json", "-o", "here.json"]) == 0
    assert len(commands.asked) == 1
    assert of_file.placement == Plan.load("here.json").placement


def test_what_stands_beside_a_plan_goes_beside_it(folder, capsys):
    """Without -o nothing goes into the current folder."""
    before = names(folder)
    assert main(["plan", "small.json"]) == 0
    assert main(["simulate", "out/small/plan.json"]) == 0
    assert names(folder) == before | {"out"}
    assert names(folder / "out" / "small") == {"plan.json", "plan.partition.npz", "predicted.json"}


def test_several_clusters_stand_side_by_side(folder, capsys):
    """Seconds, dollars and memory of each; every plan is a file of its cluster's name."""
    (folder / "cheap.toml").write_text(CLUSTER.format(price=3600, device="t4"))
    (folder / "fast.toml").write_text(CLUSTER.format(price=7200, device="h100-sxm"))
    argv = ["plan", "small.json", "cheap.toml", "fast.toml", "-o", "both"]
    assert main(argv) == 0
    out, _ = capsys.readouterr()
    assert out.index("fast") < out.index("cheap")
    assert names(folder / "both") == {
        f"{name}{end}" for name in ("cheap", "fast") for end in (".json", ".partition.npz")
    }
    assert main([*argv, "--json"]) == 0
    cheap, fast = json.loads(capsys.readouterr().out)["choices"]
    for facts, price in ((cheap, 3600), (fast, 7200)):
        assert facts["job_s"] == pytest.approx(3 * facts["epoch_s"])
        assert facts["dollars"] == pytest.approx(facts["job_s"] * price / 3600)


@pytest.mark.long
def test_clusters_none_of_which_fits(folder, capsys):
    """Exit code 3, and the reason."""
    for name in "ab":
        (folder / f"{name}.toml").write_text(f"{CLUSTER.format(price=1, device='t4')}memory_bytes = 1000\n")
    assert main(["plan", "small.json", "a.toml", "b.toml"]) == 3
    assert "no plan fits any of the 2 clusters" in capsys.readouterr().err
