"""One graph in the memory of a host: all its workers read the same, only the first loads it, and nothing is left."""

import numpy as np
import pytest
import torch

from gnnplan.planner.graph_spec import NpzGraph
from gnnplan.planner.loaders import load_graph
from gnnplan.runtime.mini_batch.host_graph import load_host_graph
from gnnplan.runtime.sampling.loader import NeighborLoader
from tests import warm
from tests.runtime.launched import launched
from tests.runtime.mini_batch.job_graphs import GRAPH, as_data, digest


def test_one_worker_has_what_was_loaded():
    """Nothing is shared; batches are those of PyG's own form of the graph."""
    graph, found = load_graph(GRAPH), load_host_graph(GRAPH)
    assert np.array_equal(found.x, graph.x)
    assert np.array_equal(found.y, graph.y)
    assert np.array_equal(found.train_mask, graph.train_mask)
    assert found.num_classes == 4
    ours = NeighborLoader(found.data, [5, 3], batch_size=50, csc=found.csc, seed=0)
    theirs = NeighborLoader(as_data(graph), [5, 3], batch_size=50, seed=0)
    for one, other in zip(ours, theirs, strict=True):
        for name in ("x", "y", "edge_index", "n_id", "e_id"):
            assert torch.equal(one[name], other[name]), name


def test_sparse_features_are_read_dense(tmp_path):
    """As mini-batches pick whole rows."""
    path = tmp_path / "graph.npz"
    x = np.eye(6, 40, dtype=np.float32)
    columns = {"x_data": x[x > 0], "x_indices": np.arange(6), "x_indptr": np.arange(7), "x_shape": np.array(x.shape)}
    edges = np.array([[0, 1, 2, 3, 4, 5], [1, 2, 3, 4, 5, 0]])
    np.savez(path, num_nodes=6, edge_index=edges, y=np.zeros(6, np.int8), **columns)
    assert np.array_equal(load_host_graph(NpzGraph(source="npz", path=path)).x, x)


WORKER = """
import os, sys
from datetime import timedelta
from pathlib import Path

import torch.distributed as dist

from gnnplan.planner import loaders
from gnnplan.profiles.launch import emit, reporting_errors
from gnnplan.runtime import shared_memory
from gnnplan.runtime.mini_batch import host_graph
from gnnplan.runtime.shared_memory import group_of_host
from tests.runtime.mini_batch.job_graphs import GRAPH, digest

folder, how, rank = Path(sys.argv[1]), sys.argv[2], int(os.environ["RANK"])
hosts = [0, 0, 1]
with reporting_errors(folder, rank):
    dist.init_process_group("gloo", timeout=timedelta(seconds=60))
    loads = []
    load_graph = host_graph.load_graph
    host_graph.load_graph = lambda spec: loads.append(spec) or load_graph(spec)
    if how == "no room" and rank == 0:
        shared_memory.available_bytes = lambda: 10
    group = group_of_host(hosts, rank, 60.0)
    graph = host_graph.load_host_graph(GRAPH, [r for r, h in enumerate(hosts) if h == hosts[rank]], rank, group)
    if rank == 1:
        graph.x[0] = 7.0
    dist.barrier()
    maps = Path("/proc/self/maps").read_text().count(host_graph.MEMORY_NAME)
    first = float(graph.x[0, 0])
    dist.barrier()
    graph.x[0] = 0.0
    emit({"rank": rank, "digest": digest(graph), "loads": len(loads), "maps": maps, "first": first})
    dist.barrier()
    dist.destroy_process_group()
"""


@pytest.mark.distributed
def test_the_workers_of_a_host_share_one_graph(tmp_path):
    """What one writes the other reads, and only the first has loaded it; another host has its own."""
    events, error = launched("a_graph_worker", WORKER, tmp_path, "to the end", launch=warm.launch)
    assert error is None
    assert [event["loads"] for event in events] == [1, 0, 1]
    assert [event["maps"] > 0 for event in events] == [True, True, False]
    assert [event["first"] == 7.0 for event in events] == [True, True, False]
    graph = load_host_graph(GRAPH)
    graph.x[0] = 0.0
    assert {event["digest"] for event in events} == {digest(graph)}


@pytest.mark.long
@pytest.mark.distributed
def test_a_host_without_room_for_its_graph_ends_the_run(tmp_path):
    """The worker that would share it says so, and its peers are not blamed."""
    _, error = launched("a_graph_worker", WORKER, tmp_path, "no room")
    assert error.startswith("the graph that this host's workers share takes")
    assert "10 are left in its memory" in error
