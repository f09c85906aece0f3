"""Starting a mini-batch job: how many workers with how many threads, and what is refused before any is started."""

import pytest
import torch

from planner.job import Job, MiniBatchSpec, PinnedDecisions, SbmGraph
from planner.minibatch import run
from planner.minibatch.run import run_mini_batches
from profiles.agents import HostGroup
from profiles.errors import UserError

JOB = Job(schema_version=1, graph=SbmGraph(source="sbm"), mini_batch=MiniBatchSpec(fan_outs=(10, 5)))


class StartedError(Exception):
    """Raised in place of starting workers."""


@pytest.fixture
def started(monkeypatch):
    """What was asked to be started, on a machine of five cores."""
    asked = {}

    def launch(module, arguments, **options):
        asked.update(options, module=module, arguments=arguments)
        raise StartedError

    monkeypatch.setattr(run, "launch", launch)
    monkeypatch.setattr(run, "num_usable_cores", lambda: 5)
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    return asked


def start(folder, monkeypatch=None, num_devices=0, **options):
    """Starts the job on a machine with so many CUDA devices."""
    if num_devices:
        monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
        monkeypatch.setattr(torch.cuda, "device_count", lambda: num_devices)
    with pytest.raises(StartedError):
        run_mini_batches(JOB, folder, **options)


@pytest.mark.parametrize(
    ("num_devices", "num_workers", "expected"),
    [(0, 0, HostGroup(1, 5)), (0, 2, HostGroup(2, 2)), (2, 0, HostGroup(2, 2)), (2, 1, HostGroup(1, 5))],
)
def test_workers_share_the_cores(started, monkeypatch, tmp_path, num_devices, num_workers, expected):
    """One a CUDA device, or one on a CPU, unless told otherwise."""
    start(tmp_path, monkeypatch, num_devices, num_workers=num_workers, timeout_s=9.0)
    assert started["hosts"] == [expected]
    assert started["module"] == "runtime.mini_batch"
    assert started["arguments"] == [str(tmp_path / "job.json"), str(tmp_path), "--timeout-s=9.0"]
    assert Job.load(tmp_path / "job.json") == JOB


@pytest.mark.parametrize(("num_devices", "kind"), [(0, "5 cores"), (2, "2 CUDA devices")])
def test_more_workers_than_there_are_places_are_refused(started, monkeypatch, tmp_path, num_devices, kind):
    """With both numbers, and no file."""
    monkeypatch.setattr(torch.cuda, "is_available", lambda: num_devices > 0)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: num_devices)
    with pytest.raises(UserError, match=f"6 workers asked for, this machine has {kind}"):
        run_mini_batches(JOB, tmp_path, num_workers=6)
    assert not list(tmp_path.iterdir())


def test_a_full_batch_job_is_refused(started, tmp_path):
    """It says what is missing."""
    with pytest.raises(UserError, match=r"no \[mini_batch\] section"):
        run_mini_batches(JOB.model_copy(update={"mini_batch": None}), tmp_path)


@pytest.mark.parametrize("pin", [{"num_workers": 3}, {"refresh_interval": 2}])
def test_pins_of_full_batch_plans_are_refused(started, tmp_path, pin):
    """They would be without effect."""
    job = JOB.model_copy(update={"pin": PinnedDecisions(**pin)})
    with pytest.raises(UserError, match=rf"pin\.{next(iter(pin))} is of full-batch plans"):
        run_mini_batches(job, tmp_path)


def test_an_earlier_runs_record_is_not_taken_for_this_ones_and_its_model_stays(started, tmp_path):
    """The record goes before the workers start, the model when there is another one."""
    for name in ("mini_batch.json", "model.pt"):
        (tmp_path / name).write_text("{}")
    start(tmp_path)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["job.json", "model.pt"]
    assert (tmp_path / "model.pt").read_text() == "{}"
