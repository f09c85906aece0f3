"""Hit rates: overlap priority is never below FIFO or LRU, and finds everything where everything fits."""

from itertools import product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from benchmarks.oracles.halo import build_halo
from benchmarks.oracles.hits import Displacing, play
from gnnplan.planner.adjacency import aggregation_matrix
from gnnplan.planner.generate import generate_sbm
from gnnplan.planner.graph_spec import SbmGraph
from gnnplan.planner.partitioning.partition import partition

POLICIES = ["overlap", "fifo", "lru"]
PLACEMENTS = ["inclusive", "exclusive"]
HALO = st.lists(st.integers(0, 19), unique=True, max_size=12).map(lambda ids: np.array(ids, np.int64))


def test_fifo_displaces_the_oldest_and_lru_the_longest_unused():
    """Using vertex 1 again saves it under LRU only."""
    for by_use, held in ((False, {2, 3}), (True, {1, 3})):
        cache = Displacing(2, by_use=by_use)
        for vertex in (1, 2, 1, 3):
            cache.touch(vertex)
        assert {vertex for vertex in range(5) if vertex in cache} == held


def test_nothing_fits_into_no_room():
    """A cache of capacity zero stays empty."""
    cache = Displacing(0, by_use=True)
    cache.touch(1)
    assert 1 not in cache


@pytest.mark.long
@pytest.mark.parametrize("placement", PLACEMENTS)
@settings(deadline=None, max_examples=200)
@given(st.lists(HALO, min_size=1, max_size=2), st.integers(0, 8), st.integers(0, 8))
def test_priority_is_never_below_the_others(placement, halos, device_rows, region_rows):
    """On up to two workers its content is the best there is, in every epoch but the first, which finds nothing."""
    rooms = {"device_rows": device_rows, "region_rows": region_rows}
    played = {policy: play(halos, **rooms, policy=policy, num_epochs=5, placement=placement) for policy in POLICIES}
    for policy in POLICIES:
        assert (played[policy][0].device, played[policy][0].region) == (0, 0)
        for ours, theirs in zip(played["overlap"], played[policy], strict=True):
            assert ours.lookups == theirs.lookups == sum(map(len, halos))
            assert ours.rate >= theirs.rate


@pytest.mark.parametrize("placement", PLACEMENTS)
@pytest.mark.parametrize("policy", POLICIES)
@settings(deadline=None, max_examples=50)
@given(st.lists(HALO, min_size=1, max_size=4))
def test_everything_is_found_where_everything_fits(placement, policy, halos):
    """At coverage, by the devices alone or by the region alone."""
    largest, together = max(map(len, halos)), len(np.unique(np.concatenate(halos)))
    for device_rows, region_rows in ((largest, 0), (0, together)):
        rooms = {"device_rows": device_rows, "region_rows": region_rows}
        last = play(halos, **rooms, policy=policy, num_epochs=2, placement=placement)[-1]
        assert last.rate == 1.0


def test_a_two_tier_epoch_by_hand():
    """Two workers read vertex 0 and one of their own; one row fits each device, one the region."""
    halos = [np.array([0, 1]), np.array([0, 2])]
    ours = play(halos, device_rows=1, region_rows=1, policy="overlap", num_epochs=2)[-1]
    assert (ours.lookups, ours.device, ours.region) == (4, 2, 2)
    # Both devices end with their last row, the region with the last of all.
    lru = play(halos, device_rows=1, region_rows=1, policy="lru", num_epochs=2)[-1]
    assert (lru.device, lru.region) == (2, 0)
    # What the devices displace is vertex 0, twice: with exclusive tiers it stays in the region for both.
    lru = play(halos, device_rows=1, region_rows=1, policy="lru", num_epochs=2, placement="exclusive")[-1]
    assert (lru.device, lru.region) == (2, 2)


def test_a_cyclic_scan_defeats_lru_row_by_row():
    """One row short of the halo, each row is displaced just before it is needed; at once all but one are found."""
    halo = [np.arange(10)]
    found = {
        lookups: play(halo, device_rows=9, region_rows=0, policy="lru", num_epochs=4, lookups=lookups)[-1].device
        for lookups in ("one_by_one", "at_once")
    }
    assert found == {"one_by_one": 0, "at_once": 9}
    assert play(halo, device_rows=9, region_rows=0, policy="overlap", num_epochs=4)[-1].device == 9


@pytest.mark.parametrize("num_parts", [2, 4])
def test_priority_is_on_top_at_every_capacity_of_a_partitioned_graph(num_parts):
    """Never below FIFO and LRU, above inclusive ones where rows have several readers, until all is found."""
    graph = generate_sbm(SbmGraph(source="sbm", num_nodes=600, average_degree=10, num_classes=4, num_features=2))
    part = partition(600, graph.edge_index, num_parts, "metis")
    halos = [b.halo for b in build_halo(aggregation_matrix(600, graph.edge_index, "gcn"), part, num_parts).blocks]
    coverage = max(map(len, halos))
    for rows in np.linspace(coverage / 8, coverage, 8).astype(int):
        rates = {
            (policy, placement): play(
                halos, device_rows=rows, region_rows=rows, policy=policy, num_epochs=4, placement=placement
            )[-1].rate
            for policy, placement in product(POLICIES, PLACEMENTS)
        }
        ours = rates["overlap", "exclusive"]
        others = max(rates["fifo", "inclusive"], rates["lru", "inclusive"])
        assert ours == max(rates.values())
        assert num_parts == 2 or others == 1.0 or ours > others
    assert ours == 1.0
