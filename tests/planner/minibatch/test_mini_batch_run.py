"""Starting a mini-batch job: how many workers with how many threads, and what is refused before any is started."""

import json
from pathlib import Path

import pytest
import torch

from gnnplan.planner.cluster import Cluster, DeviceSpec, HostSpec
from gnnplan.planner.job import Job, MiniBatchSpec, NpzGraph, PinnedDecisions, SbmGraph
from gnnplan.planner.minibatch import run
from gnnplan.planner.minibatch.run import check_apart, run_mini_batches
from gnnplan.profiles.agents import HostGroup
from gnnplan.profiles.errors import UserError
from gnnplan.profiles.launch import HOSTS_VARIABLE

JOB = Job(schema_version=1, graph=SbmGraph(source="sbm"), mini_batch=MiniBatchSpec(fan_outs=(10, 5)))


class StartedError(Exception):
    """Raised in place of starting workers."""


@pytest.fixture
def started(monkeypatch):
    """What was asked to be started, on a machine of five cores."""
    asked = {}

    def launch(module, arguments, **options):
        asked.update(options, module=module, arguments=arguments, job=Job.load(arguments[0]))
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
    assert started["module"] == "gnnplan.runtime.mini_batch"
    assert started["arguments"][1:] == [str(tmp_path), "--timeout-s=9.0"]
    assert started["job"] == JOB


TWO_HOSTS = Cluster(
    schema_version=1,
    hosts=(
        HostSpec(name="slow", devices=(DeviceSpec(catalog="t4"),), cpu_cores=0.5),
        HostSpec(name="fast", devices=(DeviceSpec(catalog="t4", count=2),)),
    ),
)


def test_every_device_of_an_emulated_cluster_is_a_worker_on_its_host(started, monkeypatch, tmp_path):
    """Workers share what cores their host has, of the machine's five; one with half a core has a thread still."""
    reached = [
        {"name": host.name, "address": f"10.0.0.{index}", "interface": "eth0", "prefix": ["in", host.name]}
        for index, host in enumerate(TWO_HOSTS.hosts)
    ]
    (tmp_path / "hosts.json").write_text(json.dumps(reached))
    monkeypatch.setenv(HOSTS_VARIABLE, str(tmp_path / "hosts.json"))
    start(tmp_path / "out", cluster=TWO_HOSTS)
    assert started["hosts"] == [
        HostGroup(1, 1, ("in", "slow"), "10.0.0.0", "eth0"),
        HostGroup(2, 2, ("in", "fast"), "10.0.0.1", "eth0"),
    ]


def test_hosts_that_cannot_be_reached_are_refused(started, monkeypatch, tmp_path):
    """By name, with what to do, and no file."""
    monkeypatch.delenv(HOSTS_VARIABLE, raising=False)
    with pytest.raises(UserError, match="slow, fast cannot be reached from here: use `gnnplan emulate`"):
        run_mini_batches(JOB, tmp_path, cluster=TWO_HOSTS)
    assert not list(tmp_path.iterdir())


def test_emulated_hosts_have_no_cuda_devices(started, monkeypatch, tmp_path):
    """Two of them would train on one device."""
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    with pytest.raises(UserError, match="hide this machine's CUDA devices"):
        run_mini_batches(JOB, tmp_path, cluster=TWO_HOSTS)


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
    assert [path.name for path in tmp_path.iterdir()] == ["model.pt"]
    assert (tmp_path / "model.pt").read_text() == "{}"


def test_a_job_file_in_the_folder_is_left_alone(started, tmp_path):
    """It may be the one that is run; the workers' copy lies elsewhere, and goes with the run."""
    (tmp_path / "job.json").write_text("the user's own")
    start(tmp_path)
    assert (tmp_path / "job.json").read_text() == "the user's own"
    assert [path.name for path in tmp_path.iterdir()] == ["job.json"]
    assert not Path(started["arguments"][0]).exists()


@pytest.mark.parametrize("name", ["mini_batch.json", "model.pt", "workers.log"])
def test_a_job_file_that_the_run_would_write_over_is_refused(tmp_path, monkeypatch, name):
    """Also by another path to it; in another folder its name is as good as any."""
    (tmp_path / "out").mkdir()
    monkeypatch.chdir(tmp_path)
    with pytest.raises(UserError, match=rf"{name}: the run writes its own {name} there; name another folder with -o"):
        check_apart(Path("out/../out") / name, tmp_path / "out")
    check_apart(tmp_path / name, tmp_path / "out")


def test_graphs_are_found_from_where_the_run_was_started(started, tmp_path, monkeypatch):
    """A job made in Python may name them by a relative path; the workers' copy lies elsewhere."""
    monkeypatch.chdir(tmp_path)
    relative = JOB.model_copy(update={"graph": NpzGraph(source="npz", path=Path("graph.npz"))})
    with pytest.raises(StartedError):
        run_mini_batches(relative, tmp_path / "out")
    assert started["job"].graph.path == tmp_path / "graph.npz"
