"""What `gnnplan plan` refuses of a mini-batch job before any worker starts: one line, exit code 2, no file."""

import pytest

from gnnplan.planner.cli import main
from gnnplan.planner.job import Job

JOB = """
schema_version = 1
{top}
[graph]
source = "sbm"
num_nodes = 60
[model]
num_layers = 2
{model}
[training]
{training}
{mini_batch}
"""
SECTION = "[mini_batch]\nfan_outs = [4, 3]\n"
RANGE = "give 1 to 2147483647 neighbours a hop, or -1 for all of them"


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """The working folder."""
    monkeypatch.chdir(tmp_path)
    return tmp_path


def write(folder, *, mini_batch=SECTION, top="", model="", training=""):
    """A job file."""
    (folder / "job.toml").write_text(JOB.format(mini_batch=mini_batch, top=top, model=model, training=training))


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"mini_batch": "[mini_batch]\nbatch_size = 10"}, "mini_batch.fan_outs: this key is missing"),
        ({"mini_batch": "[mini_batch]\nfan_outs = []"}, "mini_batch.fan_outs: Tuple should have at least 1 item"),
        (
            {"mini_batch": "[mini_batch]\nfan_outs = [4, 3, 2]"},
            "fan_outs has 3 hops, and the model's 2 layers sum 2 times",
        ),
        ({"mini_batch": "[mini_batch]\nfan_outs = [4, 0]"}, f"fan_outs 4, 0: {RANGE}"),
        ({"mini_batch": "[mini_batch]\nfan_outs = [-2, 4]"}, f"fan_outs -2, 4: {RANGE}"),
        ({"mini_batch": f"[mini_batch]\nfan_outs = [4, {10**20}]"}, f"fan_outs 4, {10**20}: {RANGE}"),
        ({"mini_batch": "[mini_batch]\nfan_outs = [4, 2.5]"}, "mini_batch.fan_outs.1: Input should be a valid integer"),
        (
            {"mini_batch": f"{SECTION}batch_size = 0"},
            "mini_batch.batch_size: Input should be greater than or equal",
        ),
        (
            {"mini_batch": f"{SECTION}batch_size = {10**20}"},
            "mini_batch.batch_size: Input should be less than or equal",
        ),
        (
            {"mini_batch": f"{SECTION}device_bytes = 0"},
            "mini_batch.device_bytes: Input should be greater than or equal",
        ),
        ({"mini_batch": f"{SECTION}batch = 5"}, "mini_batch.batch: unknown key (got 5)"),
        ({"model": "input_dropout = 0.5"}, "mini-batches have no input_dropout; set it to 0"),
        ({"training": f"seed = {10**20}"}, "training.seed: Input should be less than 9223372036854775808"),
        ({"training": "learning_rate = nan"}, "training.learning_rate: Input should be a finite number (got nan)"),
        ({"mini_batch": f"{SECTION}[pin]\noverlap = true"}, "pin.overlap is of full-batch plans"),
    ],
)
def test_a_bad_job_is_one_line(folder, capsys, changes, message):
    """It starts with what is wrong and where."""
    write(folder, **changes)
    assert main(["plan", "job.toml", "-o", "out/plan.json"]) == 2
    out, err = capsys.readouterr()
    assert err.startswith("gnnplan: job")
    assert (err.count("\n"), out) == (1, "")
    assert message in err
    assert [path.name for path in folder.rglob("*") if path.is_file()] == ["job.toml"]


def test_more_workers_than_cores_are_refused(folder, capsys):
    """Before anything is started."""
    write(folder, mini_batch=f"{SECTION}[pin]\nnum_workers = 4000")
    assert main(["plan", "job.toml", "-o", "plan.json"]) == 2
    assert "gnnplan: 4000 workers asked for, this machine has " in capsys.readouterr().err


def test_the_largest_of_everything_is_taken(folder):
    """What is allowed at the borders, and -1."""
    write(folder, mini_batch=f"[mini_batch]\nfan_outs = [-1, {2**31 - 1}]\nbatch_size = {2**31 - 1}\ndevice_bytes = 1")
    spec = Job.load("job.toml").mini_batch
    assert (spec.fan_outs, spec.batch_size, spec.device_bytes) == ((-1, 2**31 - 1), 2**31 - 1, 1)
