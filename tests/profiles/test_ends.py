"""Runs that lose a process which is not dead: they end soon, and say who it is."""

import os

import pytest

from gnnplan.profiles.agents import HostGroup
from gnnplan.profiles.errors import RunFailedError
from gnnplan.profiles.launch import launch

WORKER = """
import os, signal, sys, time
from pathlib import Path
import torch
from gnnplan.profiles.launch import reporting_errors
from gnnplan.profiles.torchrun import process_group

folder, when = Path(sys.argv[2]), sys.argv[1]
rank = int(os.environ["RANK"])
with reporting_errors(folder, rank):
    if when == "start" and rank == 1:
        os.kill(os.getpid(), signal.SIGSTOP)
    with process_group(torch.device("cpu"), 4.0):
        pass
    if when in ("agent", "waiting", "cut off") and rank == 1:
        os.kill(os.getppid(), signal.SIGSTOP)
    if when == "cut off" and rank == 0:
        time.sleep(2)
        raise RuntimeError("Connection reset by peer")
    if when in ("waiting", "cut off"):
        time.sleep(600)
    if when == "worker" and rank == 1:
        os.kill(os.getpid(), signal.SIGSTOP)
"""


def ended(when, folder):
    """What a run of two workers says; `when` says who is stopped."""
    (folder / "stopping_worker.py").write_text(WORKER)
    path = os.pathsep.join([str(folder), os.environ.get("PYTHONPATH", "")])
    hosts, environment = [HostGroup(2)], {"PYTHONPATH": path}
    with pytest.raises(RunFailedError) as caught:
        launch(
            "stopping_worker", [when, str(folder)], hosts=hosts, folder=folder, environment=environment, silence_s=10.0
        )
    return str(caught.value)


@pytest.mark.long
@pytest.mark.distributed
def test_a_worker_that_is_silent_at_the_start_is_named(tmp_path):
    """A stopped process: its peers wait for it no longer than they were told to."""
    assert "worker 1 has not started within 4 s" in ended("start", tmp_path)


@pytest.mark.long
@pytest.mark.distributed
def test_a_stopped_agent_ends_the_run(tmp_path):
    """Its workers have ended, and it never will."""
    assert "the agent of host 0 does not end" in ended("agent", tmp_path)


@pytest.mark.long
@pytest.mark.distributed
@pytest.mark.parametrize("when", ["worker", "waiting", "cut off"])
def test_what_is_stopped_and_silent_ends_the_run(when, tmp_path):
    """A worker that was done, whom nobody misses; and an agent whose workers wait for its store, or find it gone."""
    assert "the agent of host 0 does not end: it, or a worker of its, is stopped" in ended(when, tmp_path)
