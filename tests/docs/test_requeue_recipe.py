"""The script of docs/checkpoints.md for Slurm puts itself back into the queue where it was told to end, only then."""

import os
import signal
import subprocess
import time
from pathlib import Path

import pytest

PAGE = Path(__file__).parents[2] / "docs" / "checkpoints.md"
GNNPLAN = """#!/bin/bash
trap 'sleep 0.3; echo kept >> checkpoint; exit 143' TERM   # as a run that writes a checkpoint before it ends
echo "$@" >> commands
if [ -e checkpoint ]; then exit ${ENDS_WITH:-0}; fi
for _ in $(seq 100); do sleep 0.1; done
exit 1
"""
SCONTROL = '#!/bin/bash\necho "$@" >> requeued\n'


def recipe():
    """The first block of the page that asks for a requeue."""
    return next(block for block in PAGE.read_text().split("```") if "--requeue" in block)


@pytest.fixture
def start(tmp_path):
    """Starts the script, as Slurm would, beside a `gnnplan` and a `scontrol` that note what they are told."""
    for name, source in (("gnnplan", GNNPLAN), ("scontrol", SCONTROL), ("job.sh", recipe())):
        (tmp_path / name).write_text(source)
        (tmp_path / name).chmod(0o755)

    def started(**variables):
        paths = {"PATH": f"{tmp_path}{os.pathsep}{os.environ['PATH']}", "SLURM_JOB_ID": "77"}
        return subprocess.Popen(["bash", "job.sh"], cwd=tmp_path, env=os.environ | paths | variables)

    return started


def noted(folder, name):
    """What a program was told, one call a line."""
    path = folder / name
    return path.read_text().splitlines() if path.exists() else []


def test_it_goes_on_after_a_preemption(start, tmp_path):
    """Told to end it waits for the checkpoint, and asks for a requeue; the same script then ends with 0, in silence."""
    job, end_s = start(), time.monotonic() + 20
    while not noted(tmp_path, "commands") and time.monotonic() < end_s:
        time.sleep(0.02)
    time.sleep(0.2)  # until the script waits
    job.send_signal(signal.SIGTERM)
    assert job.wait(timeout=20) == 143
    assert noted(tmp_path, "checkpoint") == ["kept"]
    assert noted(tmp_path, "requeued") == ["requeue 77"]
    assert start().wait(timeout=20) == 0
    assert noted(tmp_path, "commands") == ["run out/plan.json -o out/run --resume"] * 2
    assert noted(tmp_path, "requeued") == ["requeue 77"]


def test_a_run_that_fails_is_not_begun_again(start, tmp_path):
    """Its own error would come again."""
    (tmp_path / "checkpoint").write_text("")
    assert start(ENDS_WITH="1").wait(timeout=20) == 1
    assert noted(tmp_path, "requeued") == []
