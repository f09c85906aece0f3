"""Halo exchange among real workers: copies forward, sums of their gradients back, sparse rows alike."""

import numpy as np
import pytest
import scipy.sparse as sp
import torch

from gnnplan.planner.halo import build_halo
from gnnplan.planner.shard import cut_shard
from gnnplan.profiles.agents import HostGroup
from gnnplan.runtime.comm import HaloExchanger
from gnnplan.runtime.recorder import Recorder
from tests.warm import launch

WORKER = """
import json, os, sys
from datetime import timedelta
from pathlib import Path

import numpy as np
import scipy.sparse as sp
import torch
import torch.distributed as dist

from gnnplan.planner.shard import Shard
from gnnplan.profiles.agents import HostGroup
from gnnplan.profiles.launch import reporting_errors
from gnnplan.runtime.comm import HaloExchange, HaloExchanger
from gnnplan.runtime.recorder import Recorder

folder, rank = Path(sys.argv[1]), int(os.environ["RANK"])
with reporting_errors(folder, rank):
    dist.init_process_group("gloo", timeout=timedelta(seconds=60))
    shard = Shard.load(folder / f"worker_{rank}.npz")
    recorder = Recorder(torch.device("cpu"))
    exchanger = HaloExchanger.from_shard(shard, recorder)
    whole = np.load(folder / "whole.npz")
    x = torch.from_numpy(whole["x"])[shard.vertices].requires_grad_()
    recorder.begin(True)
    rows = HaloExchange.apply(x, exchanger, "l0/halo")
    weights = torch.from_numpy(whole[f"weights_{rank}"])
    (rows * weights).sum().backward()
    recorder.end()
    sent = recorder.sent_bytes
    csr = shard.x
    parts = exchanger.fetch_sparse(*(torch.from_numpy(part) for part in (csr.indptr, csr.indices, csr.data)))
    np.savez(
        folder / f"result_{rank}.npz", rows=rows.detach(), grad=x.grad, sent=sent, keys=[s[0] for s in recorder.spans],
        indptr=parts[0], indices=parts[1], data=parts[2],
    )
    dist.destroy_process_group()
"""
NUM_WORKERS, WIDTH = 3, 4


@pytest.fixture(scope="module")
def exchanged(tmp_path_factory):
    """The halo of a random graph over three workers (the last pair share nothing one way), and what they got."""
    from gnnplan.planner.graph import Graph

    folder = tmp_path_factory.mktemp("comm")
    rng = np.random.default_rng(5)
    n = 30
    edges = rng.integers(0, n, (2, 90))
    matrix = sp.csr_matrix((np.ones(90, np.float32), (edges[1], edges[0])), shape=(n, n))
    part = rng.integers(0, NUM_WORKERS, n)
    halo = build_halo(matrix, part, NUM_WORKERS)
    features = sp.random(n, 12, 0.2, format="csr", dtype=np.float32, random_state=1)
    mask = np.ones(n, bool)
    graph = Graph(n, edges, sp.csr_matrix(features), np.zeros(n, np.int64), mask, mask, mask, 2, "test")
    x = rng.standard_normal((n, WIDTH)).astype(np.float32)
    weights = [
        rng.standard_normal((len(block.vertices) + len(block.halo), WIDTH)).astype(np.float32) for block in halo.blocks
    ]
    for rank in range(NUM_WORKERS):
        cut_shard(graph, halo, rank, sparse_features=True).save(folder / f"worker_{rank}.npz")
    np.savez(folder / "whole.npz", x=x, **{f"weights_{rank}": value for rank, value in enumerate(weights)})
    (folder / "halo_worker.py").write_text(WORKER)
    launch(
        "halo_worker",
        [str(folder)],
        hosts=[HostGroup(NUM_WORKERS)],
        folder=folder,
        environment={"PYTHONPATH": str(folder)},
    )
    results = [dict(np.load(folder / f"result_{rank}.npz")) for rank in range(NUM_WORKERS)]
    return graph, halo, x, weights, results


pytestmark = pytest.mark.distributed


def test_halo_rows_are_the_owners_rows(exchanged):
    """Every worker gets its local rows, then the rows of its halo vertices, bit for bit."""
    _, halo, x, _, results = exchanged
    assert all(len(block.halo) for block in halo.blocks)
    for block, result in zip(halo.blocks, results, strict=True):
        np.testing.assert_array_equal(result["rows"], x[np.concatenate([block.vertices, block.halo])])


def test_gradients_of_all_copies_meet_at_the_owner(exchanged):
    """The owner's gradient is the sum over its own row and every halo copy, as one index_add in one process."""
    graph, halo, _, weights, results = exchanged
    expected = torch.zeros(graph.num_nodes, WIDTH)
    for block, weight in zip(halo.blocks, weights, strict=True):
        ids = torch.from_numpy(np.concatenate([block.vertices, block.halo]))
        expected.index_add_(0, ids, torch.from_numpy(weight))
    for block, result in zip(halo.blocks, results, strict=True):
        np.testing.assert_allclose(result["grad"], expected[block.vertices], rtol=1e-5, atol=1e-6)


def test_sparse_halo_rows_are_slices_of_the_features(exchanged):
    """Row lengths, columns and values of the halo rows equal those of the whole CSR."""
    graph, halo, _, _, results = exchanged
    for block, result in zip(halo.blocks, results, strict=True):
        expected = graph.x[block.halo]
        np.testing.assert_array_equal(result["indptr"], expected.indptr)
        np.testing.assert_array_equal(result["indices"], expected.indices)
        np.testing.assert_array_equal(result["data"], expected.data)


def test_sent_bytes_are_rows_times_width_both_ways(exchanged):
    """A worker sends its send rows forward and its halo's gradients backward, four bytes a number."""
    _, halo, _, _, results = exchanged
    counts = halo.send_counts()
    for rank, result in enumerate(results):
        assert int(result["sent"]) == 4 * WIDTH * (counts[rank].sum() + counts[:, rank].sum())


def test_tasks_are_recorded_under_the_planned_keys(exchanged):
    """Pack and exchange forward, exchange and unpack backward."""
    for result in exchanged[4]:
        assert result["keys"].tolist() == [
            "l0/halo/pack/forward",
            "l0/halo/exchange/forward",
            "l0/halo/forward",
            "l0/halo/exchange/backward",
            "l0/halo/unpack/backward",
        ]


def test_one_worker_is_alone():
    """A single worker has no halo and says so; two workers are not alone even without a halo row."""
    recorder = Recorder(torch.device("cpu"))
    alone = HaloExchanger(torch.empty(0, dtype=torch.int64), [0], [0], 5, recorder)
    pair = HaloExchanger(torch.empty(0, dtype=torch.int64), [0, 0], [0, 3], 5, recorder)
    assert (alone.is_alone, alone.num_halo) == (True, 0)
    assert (pair.is_alone, pair.num_halo) == (False, 3)
