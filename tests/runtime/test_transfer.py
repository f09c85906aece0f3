"""Exchanges and sums that are waited for later: same rows, and their own end, not that of who waits."""

import json

import pytest

from gnnplan.profiles.agents import HostGroup
from tests.warm import launch

WORKER = """
import json, os, sys, time
from datetime import timedelta
from pathlib import Path

import torch
import torch.distributed as dist

from gnnplan.profiles.launch import reporting_errors
from gnnplan.runtime.recorder import Recorder
import gnnplan.runtime.transfer as transfer_module
from gnnplan.runtime.transfer import exchanged, exchanging, summing

folder, rank = Path(sys.argv[1]), int(os.environ["RANK"])
send, recv = ([0, 3], [0, 2]) if rank == 0 else ([2, 0], [3, 0])
with reporting_errors(folder, rank):
    dist.init_process_group("gloo", timeout=timedelta(seconds=60))
    recorder, source = Recorder(torch.device("cpu")), torch.full((sum(send), 4), float(rank))
    rows, sums = [], []
    for active in (False, True):
        recorder.begin(active)
        out = torch.empty(sum(recv), 4)
        rows.append(exchanged(out, source, recv, send, recorder, "blocking").wait().tolist())
        dist.barrier()
        out = torch.empty(sum(recv), 4)
        transfer = exchanging(out, source, recv, send, recorder, "beside")
        transfer_module._watch().submit(int).result(60)  # in its turn, so what it watched before has ended
        waited_from_s = time.monotonic()
        rows.append(transfer.wait().tolist())
        transfer = summing(torch.full((1, 3), rank + 1.0), recorder, "sum")
        other = exchanging(torch.empty(sum(recv), 4), source, recv, send, recorder, "both on their way")
        rows.append(other.wait().tolist())
        sums.append(transfer.wait().tolist())
    early = [end_s < waited_from_s for key, _, start_s, end_s in recorder.spans if key == "beside"]
    keys = [span[0] for span in recorder.spans]
    (folder / f"result_{rank}.json").write_text(json.dumps({"rows": rows, "sums": sums, "keys": keys, "early": early}))
    dist.destroy_process_group()
"""


@pytest.fixture(scope="module")
def results(tmp_path_factory):
    """What both workers saw."""
    folder = tmp_path_factory.mktemp("transfer")
    (folder / "transfer_worker.py").write_text(WORKER)
    launch("transfer_worker", [str(folder)], hosts=[HostGroup(2)], folder=folder,
           environment={"PYTHONPATH": str(folder)})  # fmt: skip
    return [json.loads((folder / f"result_{rank}.json").read_text()) for rank in range(2)]


def test_rows_are_the_peers(results):
    """Blocking or beside other work, measured or not: three rows of worker 0, two of worker 1."""
    for rank, num_rows in ((0, 2), (1, 3)):
        assert results[rank]["rows"] == [[[1.0 - rank] * 4] * num_rows] * 6


def test_sums_are_of_all(results):
    """Also while an exchange is on its way beside."""
    assert [result["sums"] for result in results] == [[[[3.0] * 3]] * 2] * 2


def test_span_ends_with_the_exchange(results):
    """It had ended before the worker began to wait, and so says the span; the epoch not measured left none."""
    for result in results:
        assert result["keys"] == ["blocking", "beside", "both on their way", "sum"]
        assert result["early"] == [True]
