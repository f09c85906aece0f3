"""The all-to-all moves every row to its place, whoever comes late, and a lost peer ends it."""

import textwrap

import pytest

from gnnplan.profiles.agents import HostGroup
from tests.warm import launch

WORKER = """
import os, sys, time
from datetime import timedelta
import numpy as np, torch, torch.distributed as dist
from gnnplan.profiles.exchange import all_to_all
rank, folder, sizes = int(os.environ["RANK"]), sys.argv[1], [int(size) for size in sys.argv[2:]]

def check(rank, size):
BODY

for size in sizes:
    if rank < size:
        store, wait = f"file://{folder}/store_{size}", timedelta(seconds=20)
        dist.init_process_group("gloo", init_method=store, rank=rank, world_size=size, timeout=wait)
        check(rank, size)
        dist.destroy_process_group()
"""
ROWS = """
for seed in range(12):
    rng = np.random.default_rng(seed)
    counts = rng.integers(0, 4 if seed % 3 else 40_000, (size, size)) * (rng.random((size, size)) < 0.7)
    np.fill_diagonal(counts, counts.diagonal() * (seed % 2))  # what stays is copied
    send, recv = counts[rank].tolist(), counts[:, rank].tolist()
    source = torch.cat([torch.full((n, 3), float(100 * rank + q)) for q, n in enumerate(send)])
    out = torch.full((sum(recv), 3), -1.0)
    time.sleep(float(rng.random(size)[rank]) * 0.02)
    all_to_all(out, source, recv, send)
    expected = torch.cat([torch.full((n, 3), float(100 * q + rank)) for q, n in enumerate(recv)])
    assert torch.equal(out, expected), (seed, rank, size)
"""
LOST = """
dist.barrier()  # all are connected
if rank == 0:
    sys.exit(0)
part = [0 if q == rank else 1000 for q in range(size)]
out, source = torch.zeros(sum(part)), torch.zeros(sum(part))
try:
    all_to_all(out, source, part, part)
except RuntimeError as error:
    print("lost:", error)
    sys.exit(0)
"""


def run_workers(sizes, body, folder):
    """As many processes as the largest group has; groups of each size in turn. Returns what they printed."""
    (folder / "exchange_worker.py").write_text(WORKER.replace("BODY", textwrap.indent(body, "    ")))
    arguments = [str(folder), *map(str, sizes)]
    environment = {"PYTHONPATH": str(folder)}
    launch("exchange_worker", arguments, hosts=[HostGroup(max(sizes))], folder=folder, environment=environment)
    return (folder / "workers.log").read_text()


@pytest.mark.distributed
def test_rows_arrive_where_they_belong(tmp_path):
    """Uneven and empty parts, small and large, workers arriving at different times: of four, of two, and alone."""
    run_workers([4, 2, 1], ROWS, tmp_path)


@pytest.mark.distributed
def test_a_lost_peer_ends_the_exchange(tmp_path):
    """Nobody waits for ever for a worker that is gone."""
    assert run_workers([3], LOST, tmp_path).count("lost: ") == 2
