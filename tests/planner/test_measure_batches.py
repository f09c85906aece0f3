"""Measuring mini-batches: by how many workers with how many threads, and what is refused before any is started."""

import json
from pathlib import Path

import pytest
import torch

from gnnplan.planner import measure_batches as module
from gnnplan.planner.batch_spec import MiniBatchSpec
from gnnplan.planner.cluster import Cluster, DeviceSpec, HostSpec
from gnnplan.planner.graph_spec import NpzGraph, SbmGraph
from gnnplan.planner.job import Job
from gnnplan.planner.job_pins import PinnedDecisions
from gnnplan.planner.measure_batches import measure_batches
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

    def launch(started, arguments, **options):
        asked.update(options, module=started, arguments=arguments, job=Job.load(arguments[0]))
        raise StartedError

    monkeypatch.setattr(module, "launch", launch)
    monkeypatch.setattr(module, "num_usable_cores", lambda: 5)
    monkeypatch.setattr(module, "num_cores", lambda: 5)
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    return asked


def start(monkeypatch=None, num_devices=0, num_workers=0, **options):
    """Starts the job on a machine with so many CUDA devices."""
    if num_devices:
        monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
        monkeypatch.setattr(torch.cuda, "device_count", lambda: num_devices)
    with pytest.raises(StartedError):
        measure_batches(asking(num_workers), **options)


def test_all_devices_of_a_cluster_take_part(started):
    """A pin of fewer would be passed over."""
    hosts = (
        HostSpec(name="a", devices=(DeviceSpec(catalog="t4"),)),
        HostSpec(name="b", devices=(DeviceSpec(catalog="t4"),)),
    )
    with pytest.raises(UserError, match=r"made by all 2 devices of .*, and pin\.num_workers is 1"):
        measure_batches(asking(1), Cluster(schema_version=1, hosts=hosts))


def asking(num_workers):
    """The job, with so many workers pinned (0: none)."""
    return JOB.model_copy(update={"pin": PinnedDecisions(num_workers=num_workers or None)})


@pytest.mark.parametrize(
    ("num_devices", "num_workers", "expected"),
    [(0, 0, HostGroup(1, 5)), (0, 2, HostGroup(2, 2)), (2, 0, HostGroup(2, 2)), (2, 1, HostGroup(1, 5))],
)
def test_workers_share_the_cores(started, monkeypatch, num_devices, num_workers, expected):
    """One a CUDA device, or one on a CPU, unless told otherwise."""
    start(monkeypatch, num_devices, num_workers, timeout_s=9.0)
    assert started["hosts"] == [expected]
    assert started["module"] == "gnnplan.runtime.mini_batch"
    assert started["arguments"][2:] == ["--timeout-s=9.0"]
    assert started["job"] == asking(num_workers)
    assert not Path(started["arguments"][0]).exists(), "what the workers were handed goes with them"


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
    start(cluster=TWO_HOSTS)
    assert started["hosts"] == [
        HostGroup(1, 1, ("in", "slow"), "10.0.0.0", "eth0"),
        HostGroup(2, 2, ("in", "fast"), "10.0.0.1", "eth0"),
    ]


def test_hosts_that_cannot_be_reached_are_refused(started, monkeypatch):
    """By name, with what to do."""
    monkeypatch.delenv(HOSTS_VARIABLE, raising=False)
    with pytest.raises(UserError, match="slow, fast cannot be reached from here: use `gnnplan emulate`"):
        measure_batches(JOB, TWO_HOSTS)


def test_emulated_hosts_have_no_cuda_devices(started, monkeypatch):
    """Two of them would train on one device."""
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    with pytest.raises(UserError, match="hide this machine's CUDA devices"):
        measure_batches(JOB, TWO_HOSTS)


@pytest.mark.parametrize(("num_devices", "kind"), [(0, "5 cores"), (2, "2 CUDA devices")])
def test_more_workers_than_there_are_places_are_refused(started, monkeypatch, num_devices, kind):
    """With both numbers."""
    monkeypatch.setattr(torch.cuda, "is_available", lambda: num_devices > 0)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: num_devices)
    with pytest.raises(UserError, match=f"6 workers asked for, this machine has {kind}"):
        measure_batches(asking(6))


def test_graphs_are_found_from_where_the_run_was_started(started, tmp_path, monkeypatch):
    """A job made in Python may name them by a relative path; the workers' copy lies elsewhere."""
    monkeypatch.chdir(tmp_path)
    relative = JOB.model_copy(update={"graph": NpzGraph(source="npz", path=Path("graph.npz"))})
    with pytest.raises(StartedError):
        measure_batches(relative)
    assert started["job"].graph.path == tmp_path / "graph.npz"
