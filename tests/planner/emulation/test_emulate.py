"""The emulated cluster: real namespaces, links and quotas, and nothing left of them afterwards."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from emulating import cluster, comes_true, host, needs_emulation, processes_of, quota_us, remains

from gnnplan.planner.emulation import kernel
from gnnplan.planner.emulation.emulate import _end, _hosts_of, emulate, emulated
from gnnplan.planner.emulation.weather import Spell, Weather
from gnnplan.profiles.errors import RunFailedError, UserError
from gnnplan.profiles.launch import HOSTS_VARIABLE, hosts_here, launch
from gnnplan.profiles.machine import Link

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

LINK = Link(bytes_per_s=12.5e6)  # 100 Mbit/s
WORKER = """
import os
from datetime import timedelta
from pathlib import Path
import torch.distributed as dist
from gnnplan.profiles.launch import emit
dist.init_process_group("gloo", timeout=timedelta(seconds=60))
dist.barrier()
members = Path(os.environ["CGROUP"], "cgroup.procs").read_text().split()
own, host = (os.stat(path).st_ino for path in ("/proc/self/ns/net", os.environ["NAMESPACE"]))
emit({"in_cgroup": str(os.getpid()) in members, "in_namespace": own == host})
dist.destroy_process_group()
"""


@needs_emulation
def test_hosts_reach_each_other_at_their_own_rates():
    """Hosts have addresses on one switch, the limits the file gives, and no others."""
    two = cluster(host("a", cpu_cores=0.5, link=LINK), host("b"))
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
        assert (quota_us(identity, 0), quota_us(identity, 1)) == (kernel.CPU_PERIOD_US // 2, -1)
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


@pytest.mark.long
@needs_emulation
@pytest.mark.distributed
def test_a_run_on_one_host_is_inside_the_emulation(tmp_path, monkeypatch):
    """Its workers are in the host's cgroup and namespace, and meet on the loopback there."""
    (tmp_path / "a_worker.py").write_text(WORKER)
    paths, events = [str(tmp_path), os.environ.get("PYTHONPATH", "")], []
    with emulated(cluster(host("a"))) as (identity, _, environment):
        monkeypatch.setenv(HOSTS_VARIABLE, environment[HOSTS_VARIABLE])
        places = {"CGROUP": str(kernel.cgroup_of(identity, 0)), "NAMESPACE": f"/run/netns/{identity}-0"}
        launch(
            "a_worker",
            [],
            hosts=hosts_here({"a": 2}, 1),
            folder=tmp_path / "run",
            on_event=events.append,
            environment={"PYTHONPATH": os.pathsep.join(filter(None, paths)), **places},
        )
    assert events == [{"in_cgroup": True, "in_namespace": True}] * 2


DEAF = "trap '' TERM; "  # and so is what it starts


@pytest.mark.long
@needs_emulation
@pytest.mark.parametrize(
    ("number", "trap"),
    [(signal.SIGKILL, ""), (signal.SIGTERM, ""), (signal.SIGKILL, DEAF)],
    ids=["killed", "terminated", "killed, deaf command"],
)
def test_nothing_stays_when_the_owner_is_killed(tmp_path, number, trap):
    """The reaper takes all down even when `gnnplan emulate` is ended by a signal: what its command started too."""
    path, up = cluster(host("a")).save(tmp_path / "cluster.json"), tmp_path / "up"
    command = ["sh", "-c", f'{trap}sleep 600 & touch "$0"; wait', str(up)]
    with (tmp_path / "said").open("w") as said:
        owner = subprocess.Popen(
            [sys.executable, "-m", "gnnplan.planner.cli", "emulate", str(path), "--", *command],
            start_new_session=True,
            stderr=said,
        )
    identity = f"gnnplan{owner.pid}"
    try:
        assert comes_true(up.exists, 40), "the command never started"
        assert comes_true(lambda: len(processes_of(identity)) >= 3, 10), "shell, sleep and reaper"
    finally:
        owner.send_signal(number)
        owner.wait(timeout=10)
    assert comes_true(lambda: not remains(identity), 30), f"left behind: {remains(identity)}"
    if number == signal.SIGTERM:  # the command has it too; whoever is ended first is named, or nobody
        assert owner.returncode == 143
        assert "ended by SIGTERM" in (tmp_path / "said").read_text()


@needs_emulation
def test_what_the_command_leaves_running_ends_with_it():
    """A process in the background does not outlive the hosts it was started beside."""
    assert emulate(cluster(host("a")), ["sh", "-c", "sleep 600 & exit 3"]) == 3
    assert remains(f"gnnplan{os.getpid()}") == []


@needs_emulation
def test_all_is_taken_down_also_where_the_reaper_is_gone():
    """Whoever ended it: the owner does its work then."""
    with emulated(cluster(host("a"))) as (identity, *_):
        (reaper,) = processes_of(identity)
        os.kill(reaper, signal.SIGKILL)
    assert remains(identity) == []


DEAF_CHILD = "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); print(flush=True); time.sleep(60)"


def test_a_command_that_does_not_listen_is_killed(monkeypatch):
    """After a while; one that has ended is left alone."""
    monkeypatch.setattr("gnnplan.planner.emulation.emulate._LONGEST_END_S", 0.5)
    child = subprocess.Popen([sys.executable, "-c", DEAF_CHILD], stdout=subprocess.PIPE)
    assert child.stdout.readline()
    for _ in range(2):
        _end(child)
        assert child.returncode == -signal.SIGKILL
    child.stdout.close()


@pytest.mark.long
@needs_emulation
@pytest.mark.parametrize("command", [["sleep", "60"], ["sh", "-c", f"{DEAF}sleep 60; true"]], ids=["listens", "deaf"])
def test_a_change_that_fails_ends_the_command(command, monkeypatch):
    """A run in weather that did not come would be measured wrongly, so it does not go on."""
    monkeypatch.setattr("gnnplan.planner.emulation.emulate._LONGEST_END_S", 0.5)

    def fail(*_, change, **__):
        if change:
            raise UserError("tc: no")

    monkeypatch.setattr(kernel, "set_link", fail)
    weather = Weather(schema_version=1, spells=(Spell(host="a", from_s=0.1, to_s=60, link=0.5),))
    start_s = time.monotonic()
    with pytest.raises(RunFailedError, match=r"weather could not be changed.*tc: no"):
        emulate(cluster(host("a", link=LINK)), command, weather)
    assert time.monotonic() - start_s < 30
    assert remains(f"gnnplan{os.getpid()}") == []


@needs_emulation
def test_the_commands_exit_code_and_the_weather(tmp_path):
    """The command's exit code comes back, and a spell changes the quota while it runs."""
    weather = Weather(schema_version=1, spells=(Spell(host="a", from_s=0, to_s=60, cpu=0.25),))
    identity = f"gnnplan{os.getpid()}"
    files = " ".join(str(kernel.cgroup_of(identity, 0) / name) for name in ("cpu.max", "cpu.cfs_quota_us"))
    quota = f"$(cat {files} 2> /dev/null | cut -d' ' -f1)"  # one of the two, by the version of the groups
    wanted = 0.25 * 0.8 * kernel.CPU_PERIOD_US
    script = f'for i in $(seq 600); do [ "{quota}" = {wanted:.0f} ] && exit 7; sleep 0.05; done; exit 1'
    assert emulate(cluster(host("a", cpu_cores=0.8)), ["sh", "-c", script], weather) == 7
    assert remains(identity) == []


@needs_emulation
def test_a_command_that_a_signal_ends_has_the_code_of_shells():
    """128 and the signal's number."""
    assert emulate(cluster(host("a")), ["sh", "-c", "kill -KILL $$"]) == 128 + signal.SIGKILL


@needs_emulation
def test_a_command_that_is_not_there_is_a_user_error():
    """The mistake is named in one line and the cluster is taken down."""
    with pytest.raises(UserError, match="no_such_command"):
        emulate(cluster(host("a")), ["no_such_command"])
    assert remains(f"gnnplan{os.getpid()}") == []


def spell(host="a", **shares):
    return Spell(host=host, **({"from_s": 0, "to_s": 60} | shares))


FEW = "weather: spells.{}: host 'a' from {} s: {} cores cannot be emulated"


@pytest.mark.parametrize(
    ("cores", "spells", "named"),
    [
        (0.05, (), "host 'a': 0.05 cores cannot be emulated, 0.1 is the least"),
        (0.4, (spell(cpu=0.2),), FEW.format(0, 0, 0.08)),
        (0.4, (spell(cpu=0.5), spell(from_s=5, link=0.5, cpu=0.25)), FEW.format(1, 5, 0.05)),
        (0.4, (spell(link=1e-9),), r"host 'a' from 0 s: a link of 0\.0125 B/s cannot be emulated, 1000 is the least"),
        (0.4, (spell("c"),), "host 'c' is not in the cluster"),
        (0.4, (spell(cpu=0.5), spell("b", cpu=0.4)), "spells.1: host 'b' has no cpu_cores that a share of 0.4 could"),
        (0.4, (spell("b", link=0.4),), "spells.0: host 'b' has no link that a share of 0.4 could change"),
        (0.4, (spell(),), "spells.0: host 'a': neither cpu nor link is below 1"),
    ],
)
def test_what_cannot_be_emulated_is_named_before_anything_is_brought_up(cores, spells, named, monkeypatch):
    """A host would otherwise have other rates than the files say, silently."""
    monkeypatch.setattr(kernel, "require_emulation", lambda: pytest.fail("it went on"))
    hosts = cluster(host("a", cpu_cores=cores, link=LINK), host("b"))
    with pytest.raises(UserError, match=named):
        emulate(hosts, ["true"], Weather(schema_version=1, spells=spells))


def test_no_more_cores_are_promised_than_there_are(monkeypatch):
    """Each host would otherwise have less than its quota; hosts without one are promised nothing."""
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: {0, 1})
    for cores in ((1.0, 1.0), (0.1,) * 20, (2.0, None, None)):
        assert len(_hosts_of(cluster(*(host(f"h{i}", cpu_cores=c) for i, c in enumerate(cores))))) == len(cores)
    with pytest.raises(UserError, match="cpu_cores add up to 4, 2 can be used here"):
        _hosts_of(cluster(*(host(f"h{i}", cpu_cores=1.0) for i in range(4))))


def test_a_link_that_tc_cannot_count_is_refused():
    """In fair weather too, by the network of all hosts too."""
    for limits in ({"hosts": (host("a", link=Link(bytes_per_s=1.0)),)}, {"network": Link(bytes_per_s=1.0)}):
        slow = cluster(host("a")).model_copy(update=limits)
        with pytest.raises(UserError, match="host 'a': a link of 1 B/s cannot be emulated"):
            _hosts_of(slow)
