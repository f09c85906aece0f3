"""Scripts that start a plan's workers by hand: every host has its own workers, and together they train the plan."""

import os
import socket
import subprocess
import sys

import pytest
from pydantic import ValidationError

from gnnplan.planner import api
from gnnplan.planner.cluster import Cluster, DeviceSpec, HostSpec
from gnnplan.planner.graph_spec import SbmGraph
from gnnplan.planner.job import Job
from gnnplan.planner.job_pins import PinnedDecisions
from gnnplan.planner.model_spec import ModelSpec
from gnnplan.planner.run import prepare_run
from gnnplan.planner.trace import Trace
from gnnplan.planner.training_spec import TrainingSpec
from gnnplan.profiles.catalog import catalog_profile

# Two names of this machine.
HOSTS = ("127.0.0.1", "localhost")


@pytest.fixture
def plan_path(tmp_path):
    """Two workers on the first host, one on the second, with the device kind of a CPU."""
    profile = tmp_path / "here.json"
    catalog_profile("rtx-3090").model_copy(update={"device_kind": "cpu", "num_threads": 1}).save(profile)
    hosts = (HostSpec(name=name, devices=(DeviceSpec(profile=profile, count=2 - i),)) for i, name in enumerate(HOSTS))
    job = Job(
        graph=SbmGraph(source="sbm", num_nodes=200, average_degree=8, num_classes=4, num_features=12),
        model=ModelSpec(hidden_channels=8),
        training=TrainingSpec(epochs=4),
        pin=PinnedDecisions(num_workers=3, balance="speed"),
    )
    api.plan(job, Cluster(hosts=tuple(hosts)), tmp_path / "plan.json")
    return tmp_path / "plan.json"


@pytest.mark.long
def test_every_host_starts_its_own_workers(plan_path, tmp_path):
    """In the order of ranks, with the first host as the place to meet."""
    scripts = prepare_run(plan_path, tmp_path / "run")
    for rank, (host, num_workers) in enumerate(zip(HOSTS, (2, 1), strict=True)):
        text = scripts[host].read_text()
        assert f"--nnodes=2 --rdzv-conf=rank={rank} --nproc-per-node={num_workers} " in text
        assert '--rdzv-endpoint="${MASTER_ADDR:-127.0.0.1}:${MASTER_PORT:-29500}"' in text
        assert "OMP_NUM_THREADS=1 " in text


@pytest.mark.parametrize("name", ["a b", "$(touch pwned)", "exit\n3", "../out", "", "-x", "a/b"])
def test_a_name_is_never_a_command(name):
    """Nor two hosts' scripts one file: a host's name is a word to a shell and in a file's name."""
    with pytest.raises(ValidationError, match="must be letters, digits"):
        HostSpec(name=name, devices=(DeviceSpec(catalog="t4"),))


@pytest.mark.long
@pytest.mark.distributed
def test_hosts_that_run_their_scripts_train_the_plan(plan_path, tmp_path):
    """From anywhere, each with a copy of the folder; the first has the measured trace and the model."""
    prepare_run(plan_path, tmp_path / "run")
    copies = {host: tmp_path / f"copy on {host}" for host in HOSTS}
    for copy in copies.values():
        subprocess.run(["cp", "-r", tmp_path / "run", copy], check=True)
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    environment = {**os.environ, "GLOO_SOCKET_IFNAME": "lo", "MASTER_PORT": str(port), "PYTHON": sys.executable}
    started = [
        subprocess.Popen(["sh", copy / f"start_{host}.sh", "--timeout-s=60"], env=environment, stderr=subprocess.PIPE)
        for host, copy in copies.items()
    ]
    try:
        said = [process.communicate(timeout=120)[1].decode() for process in started]
    finally:
        for process in started:
            process.kill()
    assert [process.returncode for process in started] == [0, 0], said
    measured = Trace.load(copies[HOSTS[0]] / "measured.json")
    assert (measured.num_workers, len(measured.losses)) == (3, 4)
    assert measured.losses[-1] < measured.losses[0]
    assert (copies[HOSTS[0]] / "model.pt").exists()
    assert not (copies[HOSTS[1]] / "measured.json").exists()
