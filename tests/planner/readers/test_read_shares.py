"""What every worker has of the graph is read off its programs, whatever keeps, makes or drops rows."""

import numpy as np
import pytest

from benchmarks.oracles.halo import build_halo
from gnnplan.planner.adjacency import aggregation_matrix
from gnnplan.planner.readers.shares import shares_of
from tests.planner.search.searched import GRAPHS, found

PINS = [
    {},
    {"precompute": False, "op_order": "aggregate_first"},
    {"overlap": True},
    {"precompute": False, "feature_cache": False},
]


@pytest.mark.long
@pytest.mark.parametrize("pin", PINS, ids=str)
def test_shares_are_those_of_the_partition(pin):
    """Also where rows travel once before training, in parts, or beside computation."""
    sent = {"techniques": {"halo_exchange": True}, "dependencies": "communicate"}
    best = found("sbm", num_workers=3, balance="speed", **sent, **pin).best
    part = best.choice("halo_exchange").arrays["part"]
    graph = GRAPHS["sbm"]
    halo = build_halo(aggregation_matrix(graph.num_nodes, graph.edge_index, "gcn"), part, 3)
    wanted = tuple((len(b.vertices), b.local.nnz + b.remote.nnz, len(b.halo)) for b in halo.blocks)
    assert shares_of(best.cycle) == wanted
    assert np.array(wanted).min() > 0


def test_kept_rows_are_received_too():
    """Some of them fresh, some kept: together they are the halo, once."""
    result = found(
        "sbm", num_workers=3, fidelity="stale", refresh_interval=2, on={"bytes_per_s": 1e7}, dependencies="communicate"
    )
    stale = [each for each in result.looked_at if each.choice("joint_cache")]
    exact = [each for each in result.looked_at if not each.choice("joint_cache")]
    by_part = {id(each.choice("halo_exchange").arrays["part"]): shares_of(each.cycle) for each in exact}
    assert stale
    for each in stale:
        assert shares_of(each.cycle) == by_part[id(each.choice("halo_exchange").arrays["part"])]


def test_one_worker_receives_nothing():
    """And has all of the graph."""
    ((own, edges, received),) = shares_of(found("sbm", "one").best.cycle)
    graph = GRAPHS["sbm"]
    assert (own, received) == (graph.num_nodes, 0)
    assert edges == aggregation_matrix(graph.num_nodes, graph.edge_index, "gcn").nnz
