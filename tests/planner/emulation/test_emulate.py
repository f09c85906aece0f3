"""The emulated cluster: real namespaces, links and quotas, and nothing left of them afterwards."""

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from emulating import needs_emulation, remains

from planner.cluster import Cluster, DeviceSpec, HostSpec
from planner.emulation import kernel
from planner.emulation.emulate import emulate, emulated
from planner.emulation.weather import Spell, Weather
from profiles.errors import RunFailedError, UserError
from profiles.machine import Link

KNOCK = """
import socket, sys, time
for _ in range(100):
    try:
        socket.create_connection(("{address}", 5))
        sys.exit(0)
    except OSError:
        time.sleep(0.05)
sys.exit(1)
"""


def cluster(*hosts: HostSpec) -> Cluster:
    return Cluster(schema_version=1, hosts=hosts)


def host(name: str, **limits) -> HostSpec:
    return HostSpec(name=name, devices=(DeviceSpec(catalog="t4"),), **limits)


@needs_emulation
def test_hosts_reach_each_other_at_their_own_rates():
    """Hosts have addresses on one switch, the limits the file gives, and no others."""
    two = cluster(host("a", cpu_cores=0.5, link=Link(bytes_per_s=12.5e6)), host("b"))
    with emulated(two) as (identity, _, environment):
        first, second = json.loads(Path(environment["GNNPLAN_HOSTS"]).read_text())
        run = [*second["prefix"], sys.executable, "-c", "import socket; s = socket.create_server(('', 5)); s.accept()"]
        server = subprocess.Popen(run)
        knock = KNOCK.format(address=second["address"])
        assert subprocess.run([*first["prefix"], sys.executable, "-c", knock], timeout=30).returncode == 0
        assert server.wait(timeout=10) == 0
        shaped = subprocess.run(["tc", "-n", f"{identity}-0", "qdisc", "show"], capture_output=True, text=True).stdout
        assert "tbf" in shaped
        assert "100Mbit" in shaped
        free = subprocess.run(["tc", "-n", f"{identity}-1", "qdisc", "show"], capture_output=True, text=True).stdout
        assert "tbf" not in free
        quota = kernel.cgroup_of(identity, 0) / "cpu.cfs_quota_us"
        if quota.exists():
            assert int(quota.read_text()) == kernel.CPU_PERIOD_US // 2
    assert remains(identity) == []


@needs_emulation
def test_processes_of_a_host_are_in_its_quota_and_end_with_it():
    """What runs through a host's prefix is in its cgroup, and is gone when the emulation is."""
    with emulated(cluster(host("a", cpu_cores=0.5))) as (identity, _, environment):
        (entry,) = json.loads(Path(environment["GNNPLAN_HOSTS"]).read_text())
        sleeper = subprocess.Popen([*entry["prefix"], "sleep", "600"])
        members = kernel.cgroup_of(identity, 0) / "cgroup.procs"
        for _ in range(100):
            if str(sleeper.pid) in members.read_text().split():
                break
            time.sleep(0.02)
        else:
            pytest.fail("the process never joined its host's cgroup")
    assert sleeper.wait(timeout=10) == -signal.SIGKILL
    assert remains(identity) == []


@needs_emulation
def test_nothing_stays_when_the_owner_is_killed(tmp_path):
    """The reaper takes the cluster down even when `gnnplan emulate` is ended by SIGKILL."""
    path = cluster(host("a")).save(tmp_path / "cluster.json")
    owner = subprocess.Popen(
        [sys.executable, "-m", "planner.cli", "emulate", str(path), "--", "sleep", "600"], start_new_session=True
    )
    identity = f"gnnplan{owner.pid}"
    for _ in range(400):
        if len(remains(identity)) == 3:
            break
        time.sleep(0.05)
    else:
        pytest.fail("the emulation never came up")
    owner.kill()
    owner.wait(timeout=10)
    for _ in range(200):
        if not remains(identity):
            return
        time.sleep(0.05)
    pytest.fail(f"left behind: {remains(identity)}")


@needs_emulation
def test_a_change_that_fails_ends_the_command(monkeypatch):
    """A run in weather that did not come would be measured wrongly, so it does not go on."""

    def fail(*_, change, **__):
        if change:
            raise UserError("tc: no")

    monkeypatch.setattr(kernel, "set_link", fail)
    weather = Weather(schema_version=1, spells=(Spell(host="a", from_s=0.1, to_s=60, link=0.5),))
    start_s = time.monotonic()
    with pytest.raises(RunFailedError, match=r"weather could not be changed.*tc: no"):
        emulate(cluster(host("a")), ["sleep", "60"], weather)
    assert time.monotonic() - start_s < 30


@needs_emulation
def test_the_commands_exit_code_and_the_weather(tmp_path):
    """The command's exit code comes back, and a spell changes the quota while it runs."""
    weather = Weather(schema_version=1, spells=(Spell(host="a", from_s=0, to_s=60, cpu=0.25),))
    identity = f"gnnplan{os.getpid()}"
    quota = kernel.cgroup_of(identity, 0) / "cpu.cfs_quota_us"
    wanted = 0.25 * 0.8 * kernel.CPU_PERIOD_US
    script = f"for i in $(seq 200); do [ $(cat {quota}) = {wanted:.0f} ] && exit 7; sleep 0.05; done; exit 1"
    if not Path("/sys/fs/cgroup/cpu").exists():
        pytest.skip("this check reads the v1 quota file")
    assert emulate(cluster(host("a", cpu_cores=0.8)), ["sh", "-c", script], weather) == 7
    assert remains(identity) == []


@needs_emulation
def test_a_command_that_is_not_there_is_a_user_error():
    """The mistake is named in one line and the cluster is taken down."""
    with pytest.raises(UserError, match="no_such_command"):
        emulate(cluster(host("a")), ["no_such_command"])
    assert remains(f"gnnplan{os.getpid()}") == []


def test_without_root_it_says_so(monkeypatch):
    """One line that names what is missing."""
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    with pytest.raises(UserError, match="needs root"):
        kernel.require_emulation()


def test_without_iproute2_it_says_so(monkeypatch):
    """One line that names the package."""
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    monkeypatch.setattr(shutil, "which", lambda tool: None)
    with pytest.raises(UserError, match="iproute2"):
        kernel.require_emulation()
