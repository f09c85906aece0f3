"""Several workers train every batch once between them and end with the same weights."""

import json
import subprocess
import sys
import textwrap

import pytest
from hypothesis import given
from hypothesis import strategies as st

from runtime.mini_batch.distributed import num_batches_of

WORKER = """
import json, sys
from datetime import timedelta
import torch, torch.distributed as dist
from planner.minibatch.policy import Buffers
from runtime.mini_batch.distributed import SplitStages, in_step, joined, num_batches_of
from runtime.mini_batch.executor import run_epoch
from runtime.mini_batch.loader_stages import LoaderStages
from tests.runtime.mini_batch.test_loader_stages import stages_of
from torch_geometric.nn.models import GraphSAGE

rank, size, folder = int(sys.argv[1]), int(sys.argv[2]), sys.argv[3]
torch.set_num_threads(1)
dist.init_process_group(
    "gloo", init_method=f"file://{folder}/store", rank=rank, world_size=size, timeout=timedelta(seconds=60)
)
torch.manual_seed(0)
stages = stages_of(GraphSAGE(12, 16, 2, 4))
stages.optimizer = torch.optim.SGD(stages.model.parameters(), lr=0.1)
stages.model = in_step(stages.model)
trained = []
for epoch in range(2):
    with joined(stages.model):
        mine = num_batches_of(rank, size, len(stages.loader))
        done = run_epoch(SplitStages(stages, rank, size), Buffers(2, 2), mine, epoch, timeout_s=60)
    trained.append(sorted(rank + i * size for i in done.order))
dist.barrier()
weights = [float(p.detach().double().sum()) for p in stages.model.parameters()]
with open(f"{folder}/{rank}.json", "w") as file:
    json.dump([trained, weights], file)
dist.destroy_process_group()
"""


@given(st.integers(1, 9), st.integers(0, 50))
def test_batches_are_split_without_overlap(size, num_batches):
    """Every batch has one worker, and no worker two more than another."""
    counts = [num_batches_of(rank, size, num_batches) for rank in range(size)]
    assert sum(counts) == num_batches
    assert max(counts) - min(counts) <= 1


@pytest.mark.distributed
@pytest.mark.parametrize("size", [2, 3])
def test_workers_with_uneven_counts_end_with_the_same_weights(size, tmp_path):
    """Thirteen batches do not divide by two or three: the one with fewer keeps up."""
    workers = [
        subprocess.Popen([sys.executable, "-c", textwrap.dedent(WORKER), str(rank), str(size), str(tmp_path)])
        for rank in range(size)
    ]
    try:
        assert [worker.wait(timeout=120) for worker in workers] == [0] * size
    finally:
        for worker in workers:
            worker.kill()
    results = [json.loads((tmp_path / f"{rank}.json").read_text()) for rank in range(size)]
    for epoch in range(2):
        assert sorted(index for trained, _ in results for index in trained[epoch]) == list(range(13))
    for _, weights in results[1:]:
        assert weights == results[0][1]
