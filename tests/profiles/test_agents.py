"""Agents: what torchrun is told, what workers find in their environment, and that nothing stays of a failed start."""

import os
import signal
import subprocess
import sys

import pytest

from gnnplan.profiles.agents import Agents, HostGroup, _rendezvous, _worker_environment

TWO = [HostGroup(1, address="10.0.0.1"), HostGroup(3, address="10.0.0.2", interface="veth1")]


def test_one_host_meets_on_loopback():
    """By our own rendezvous, which listens nowhere else."""
    options = _rendezvous([HostGroup(4)], 0, "some-run")
    assert "--rdzv-backend=gnnplan-loopback" in options
    assert "--rdzv-endpoint=127.0.0.1:0" in options
    assert "--rdzv-id=some-run" in options


def test_several_hosts_meet_at_the_first():
    """Each with its own rank and address."""
    first, second = (_rendezvous(TWO, rank, "some-run") for rank in (0, 1))
    assert "--rdzv-endpoint=10.0.0.1:29431" in first
    assert "--rdzv-endpoint=10.0.0.1:29431" in second
    assert {"--rdzv-conf=rank=1", "--local-addr=10.0.0.2"} <= set(second)


def test_workers_environment(monkeypatch):
    """Threads and gloo's interface are the host's, whatever the user's own environment says; what is given is there."""
    monkeypatch.setenv("GLOO_SOCKET_IFNAME", "mine")
    environment = _worker_environment(TWO[1], {"EXTRA": "1"})
    assert (environment["GLOO_SOCKET_IFNAME"], environment["EXTRA"]) == ("veth1", "1")
    environment = _worker_environment(HostGroup(1, threads=5), {})
    assert environment["GLOO_SOCKET_IFNAME"] == "lo"
    assert {environment[f"{name}_NUM_THREADS"] for name in ("OMP", "MKL", "NUMBA")} == {"5"}


def test_a_host_that_cannot_be_entered_leaves_none_running(monkeypatch):
    """The agent of the first host is stopped when the second one's cannot be started."""
    started = []
    popen = subprocess.Popen

    def recorded(command, **options):
        # In place of torchrun, so that it is not waited for until it has imported everything.
        child = popen([command[0], "60"] if command[0] == "sleep" else command, **options)
        started.append(child)
        return child

    monkeypatch.setattr(subprocess, "Popen", recorded)
    hosts = [HostGroup(1, prefix=("sleep",)), HostGroup(1, prefix=("no-such-command-here",))]
    with pytest.raises(FileNotFoundError), Agents(hosts, ["-c", "pass"], {}):
        pass
    assert len(started) == 1
    assert started[0].returncode is not None


def test_lines_and_the_exit_code_are_the_agents(monkeypatch):
    """What they print comes with the rank of its host; the first failure is the code."""
    monkeypatch.setattr("gnnplan.profiles.agents._rendezvous", lambda *_: [])
    script = "import os, sys; print('here', flush=True); sys.exit(3)"
    # `env` as the way into a host, with a command that stands in for torchrun.
    hosts = [HostGroup(1, prefix=("sh", "-c", f'exec "{sys.executable}" -c "{script}"'))]
    with Agents(hosts, [], {}) as agents:
        assert list(agents.lines()) in ([(0, "here\n")], [])
        assert agents.wait() == 3


def test_of_agents_that_do_not_end_the_stopped_ones_are_stuck():
    """The others wait for them; where none is stopped, a link may be cut, and all are named."""
    agents = Agents([HostGroup(1)] * 3, [], {})
    agents._children = [subprocess.Popen(["sleep", "60"]) for _ in range(3)]
    try:
        agents._children[0].kill()
        agents._children[0].wait()
        assert agents._stuck() == (1, 2)
        agents._children[2].send_signal(signal.SIGSTOP)
        os.waitid(os.P_PID, agents._children[2].pid, os.WSTOPPED)
        assert agents._stuck() == (2,)
    finally:
        for child in agents._children:
            child.kill()
            child.wait()


def test_bytes_that_are_no_text_are_lines_too(monkeypatch):
    """A layer may print what it likes: what comes after is heard, and the listener ends."""
    monkeypatch.setattr("gnnplan.profiles.agents._rendezvous", lambda *_: [])
    script = r"import sys; sys.stdout.buffer.write(bytes([233, 10]) + b'after\\n')"
    hosts = [HostGroup(1, prefix=("sh", "-c", f'exec "{sys.executable}" -c "{script}"'))]
    with Agents(hosts, [], {}) as agents:
        assert list(agents.lines()) == [(0, "\ufffd\n"), (0, "after\n")]
        assert agents.wait() == 0
