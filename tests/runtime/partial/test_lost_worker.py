"""Workers of processes of their own meet over the store and the mesh; one that is killed ends the run by its name."""

import os

import pytest

from gnnplan.profiles.agents import HostGroup
from gnnplan.profiles.errors import RunFailedError
from gnnplan.profiles.launch import launch

pytestmark = pytest.mark.distributed

WORKER = """
import os, signal, sys, threading
from datetime import timedelta
from pathlib import Path

import torch
import torch.distributed as dist
from torch.distributed.distributed_c10d import _get_default_store

from gnnplan.planner.partial.decision import PartialReduceDecision
from gnnplan.profiles.launch import emit, reporting_errors
from gnnplan.runtime.partial.mailbox import Mailbox
from gnnplan.runtime.partial.mesh import Mesh, connect_all
from gnnplan.runtime.partial.pace import Pace
from gnnplan.runtime.partial.reduction import sum_over
from gnnplan.runtime.partial.rounds import Rounds

signal.signal(signal.SIGTERM, signal.SIG_IGN)  # torchrun ends the others too: they have something to tell first
folder, rank, size = Path(sys.argv[1]), int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
with reporting_errors(folder, rank):
    dist.init_process_group("gloo", timeout=timedelta(seconds=60))
    decision = PartialReduceDecision(min_group=2, contributing=((1,) * size,))
    mailbox, before = Mailbox(rank, size, []), threading.active_count()
    mesh = Mesh(connect_all(60), mailbox)
    mailbox.open(mesh)
    rounds, pace = Rounds(mailbox, decision, _get_default_store(), 100_000, 60.0), Pace(0.5)
    number = 0
    try:
        while True:
            if rank == 2 and number >= 7:
                os.kill(os.getpid(), signal.SIGKILL)
            pace.begin(number)
            group = rounds.join(number, lambda peer: True, pace)
            total = sum_over(mailbox, group.members, rounds.number, torch.full((5,), float(rank)), 60.0)
            assert total.tolist() == [float(sum(group.members))] * 5
            pace.end_epoch()
            number = rounds.number + 1
    finally:
        mesh.close()
        emit({"rank": rank, "number": number, "threads": threading.active_count() - before})
"""


@pytest.mark.long
def test_a_killed_worker_ends_the_run_with_its_name(tmp_path):
    """The others are told that it is gone, and end with their threads."""
    (tmp_path / "lost_worker.py").write_text(WORKER)
    events, path = [], os.pathsep.join([str(tmp_path), os.environ.get("PYTHONPATH", "")])
    with pytest.raises(RunFailedError, match="worker 2 was ended by SIGKILL"):
        launch("lost_worker", [str(tmp_path)], hosts=[HostGroup(3)], folder=tmp_path, on_event=events.append,
               environment={"PYTHONPATH": path})  # fmt: skip
    assert events, "nobody lived to tell"
    assert all(event["threads"] == 0 for event in events)
