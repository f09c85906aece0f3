"""Warm workers are workers: they meet, tell events, are logged, and a failed or silent one ends the launch."""

import pytest

from gnnplan.profiles.agents import HostGroup
from gnnplan.profiles.errors import RunFailedError
from tests import warm

pytestmark = pytest.mark.distributed

WORKER = """
import os, sys
from datetime import timedelta
from pathlib import Path
import torch, torch.distributed as dist
from gnnplan.profiles.launch import emit, reporting_errors
rank, folder, how = int(os.environ["RANK"]), Path(sys.argv[1]), sys.argv[2]
with reporting_errors(folder, rank):
    dist.init_process_group("gloo", timeout=timedelta(seconds=60))
    total = torch.tensor([rank + 1.0])
    dist.all_reduce(total)
    print("plain words", rank)
    emit({"rank": rank, "total": total.item(), "threads": torch.get_num_threads(), "main": __name__})
    if how == "fail" and rank == 1:
        raise ValueError("the seventh shelf is empty")
    if how == "hang" and rank == 1:
        import time
        time.sleep(600)
    dist.destroy_process_group()
"""


def launch(folder, how):
    """Two of them."""
    (folder / "warm_worker.py").write_text(WORKER)
    events = []
    warm.launch(
        "warm_worker", [str(folder), how], hosts=[HostGroup(2)], folder=folder, on_event=events.append,
        environment={"PYTHONPATH": str(folder)},
    )  # fmt: skip
    return events


def test_they_meet_and_tell(tmp_path):
    """Twice, for nothing of the first launch stays."""
    for _ in range(2):
        events = sorted(launch(tmp_path, "work"), key=lambda event: event["rank"])
        assert events == [{"rank": rank, "total": 3.0, "threads": 1, "main": "__main__"} for rank in (0, 1)]
        log = (tmp_path / "workers.log").read_text()
        assert "plain words 0" in log
        assert "plain words 1" in log
        assert "total" not in log


def test_a_failure_is_an_error(tmp_path):
    """With what the worker reported."""
    with pytest.raises(RunFailedError, match="ValueError: the seventh shelf is empty"):
        launch(tmp_path, "fail")


@pytest.mark.long
def test_a_silent_worker_ends_the_launch(tmp_path, monkeypatch):
    """After a time, and is gone."""
    monkeypatch.setattr(warm, "_LONGEST_S", 4.0)
    with pytest.raises(RunFailedError, match="silent, still at work or stopped"):
        launch(tmp_path, "hang")
