"""A collective in which one worker is silent: gloo names nobody, the roll call does."""

import os

import pytest

from gnnplan.profiles.agents import HostGroup
from gnnplan.profiles.errors import RunFailedError
from gnnplan.profiles.launch import launch

pytestmark = pytest.mark.distributed

WORKER = """
import os, signal, sys, time
from datetime import timedelta
from pathlib import Path

import torch
import torch.distributed as dist

from gnnplan.profiles.launch import reporting_errors
from gnnplan.profiles.roll_call import naming_lost_workers

folder, rank = Path(sys.argv[1]), int(os.environ["RANK"])
silent, error = int(sys.argv[2]), sys.argv[3]
with reporting_errors(folder, rank):
    dist.init_process_group("gloo", timeout=timedelta(seconds=60))
    impatient = dist.new_group(timeout=timedelta(seconds=2))
    dist.barrier()
    with naming_lost_workers():
        if rank == silent and error:
            raise RuntimeError(error)
        if rank == silent:
            time.sleep(600)
        dist.all_reduce(torch.zeros(4), group=impatient)
"""


LATE = ".*(Timed out|Connection closed)"  # who waits longest may see another's end first


@pytest.mark.long
@pytest.mark.parametrize(
    ("silent", "error", "told"),
    [
        (2, "", f"a worker was lost: LostWorkerError: worker 2 does not answer: {LATE}"),
        (0, "", f"a worker was lost: LostWorkerError: worker 0 does not answer: {LATE}"),
        (1, "the seventh shelf is empty", "worker 1 failed: RuntimeError: the seventh shelf is empty"),
    ],
)
def test_who_does_not_answer_is_named(tmp_path, silent, error, told):
    """By all that waited for it; a worker with an error of its own is named for that."""
    (tmp_path / "silent_worker.py").write_text(WORKER)
    path = os.pathsep.join([str(tmp_path), os.environ.get("PYTHONPATH", "")])
    with pytest.raises(RunFailedError, match=told):
        launch("silent_worker", [str(tmp_path), str(silent), error], hosts=[HostGroup(3)], folder=tmp_path,
               environment={"PYTHONPATH": path})  # fmt: skip
