"""Both tiers of all hosts: every row once a host, one writer each, and nobody misses or is sent one too many."""

import numpy as np
import pytest
from hypothesis import given, settings

from gnnplan.planner.adjacency import aggregation_matrix
from gnnplan.planner.halo import build_halo
from gnnplan.planner.joint_cache.overlap import as_sent, overlap_ratio
from gnnplan.planner.joint_cache.region import decide_rows, is_kept_as_decided, keep_rows, kept_halo
from tests.planner.joint_cache.cases import cases


def owner_of(halo, vertex):
    """Rank of the worker that has a vertex."""
    return next(rank for rank, block in enumerate(halo.blocks) if vertex in block.vertices)


@settings(deadline=None)
@given(cases())
def test_capacities_hold_and_no_row_is_kept_twice_for_a_worker(case):
    """On its device or in its host's region; a region holds a vertex once."""
    halo, hosts, device_rows, region_rows = case
    found = keep_rows(halo, device_rows, hosts, region_rows)
    for host, room in zip(found.hosts, region_rows, strict=True):
        assert len(set(host.vertices.tolist())) == len(host.vertices) <= room
    for rank, block in enumerate(halo.blocks):
        device, place = found.device[rank], found.place[rank]
        assert device.sum() <= device_rows[rank]
        assert not (device & (place >= 0)).any()
        in_region = found.hosts[hosts[rank]].vertices
        np.testing.assert_array_equal(in_region[place[place >= 0]], block.halo[place >= 0])
        np.testing.assert_array_equal(place >= 0, np.isin(block.halo, in_region))
        np.testing.assert_array_equal(found.kept[rank], device | (place >= 0))


@settings(deadline=None)
@given(cases())
def test_a_regions_row_travels_to_a_host_once_or_not_at_all(case):
    """Not where its owner is on the host, who writes it; else to its only writer, who reads it. Others find it."""
    halo, hosts, device_rows, region_rows = case
    found = keep_rows(halo, device_rows, hosts, region_rows)
    for host, rows in enumerate(found.hosts):
        here = [rank for rank, its in enumerate(hosts) if its == host]
        for place, (vertex, writer, is_owned) in enumerate(zip(rows.vertices, rows.writer, rows.is_owned, strict=True)):
            assert writer in here
            assert is_owned == (owner_of(halo, vertex) in here)
            sent_to = [rank for rank in here if found.received[rank][np.flatnonzero(found.place[rank] == place)].any()]
            assert sent_to == ([] if is_owned else [writer])
            assert not is_owned or writer == owner_of(halo, vertex)
            assert any(place in found.place[rank] for rank in here)
    for received, place in zip(found.received, found.place, strict=True):
        assert received[place < 0].all()


@settings(deadline=None)
@given(cases())
def test_a_writers_rows_lie_together_its_own_first(case):
    """So it writes two runs of rows, one after the other."""
    halo, hosts, device_rows, region_rows = case
    for rows in keep_rows(halo, device_rows, hosts, region_rows).hosts:
        written = np.concatenate([rows.written_by(rank) for rank in range(len(hosts))])
        np.testing.assert_array_equal(written, np.arange(len(rows.vertices)))
        for rank in range(len(hosts)):
            owned = rows.is_owned[rows.written_by(rank)]
            assert (np.diff(owned.astype(int)) <= 0).all()


@settings(deadline=None)
@given(cases())
def test_the_decision_alone_says_where_rows_are(case):
    """From its numbers the same rows are found again, and they add up."""
    halo, hosts, device_rows, region_rows = case
    found = keep_rows(halo, device_rows, hosts, region_rows)
    cache = decide_rows(halo, device_rows, hosts, region_rows, refresh_interval=3)
    assert is_kept_as_decided(halo, cache, hosts)
    again = kept_halo(halo, cache, hosts)
    for ours, theirs in zip((*again.device, *again.kept), (*found.device, *found.kept), strict=True):
        np.testing.assert_array_equal(ours, theirs)
    for rank, block in enumerate(halo.blocks):
        fresh = sum(row[rank] for row in cache.fresh_counts)
        in_region = int((again.place[rank] >= 0).sum()) if again.hosts else 0
        assert cache.num_rows[rank] + in_region + fresh == len(block.halo)
    assert (cache.region is None) == (not any(len(host.vertices) for host in found.hosts))
    if cache.region:
        for ours, theirs in zip(again.place, found.place, strict=True):
            np.testing.assert_array_equal(ours, theirs)
        assert cache.region.num_rows == tuple(len(host.vertices) for host in found.hosts)
        assert sum(cache.region.written_rows) == sum(cache.region.num_rows)
        for p in range(len(hosts)):
            receiver = np.repeat(np.arange(len(hosts)), [len(rows) for rows in halo.send[p]])
            counts = np.bincount(receiver[as_sent(halo, found.received, p)], minlength=len(hosts))
            assert counts.tolist() == list(cache.region.sent_counts[p])


@settings(deadline=None)
@given(cases())
def test_without_regions_devices_keep_the_highest_ratios(case):
    """As many as fit, all sent when all travel; the decision has no region."""
    halo, hosts, device_rows, _ = case
    found, ratio = keep_rows(halo, device_rows), overlap_ratio(halo)
    assert found.hosts == ()
    for rank, block in enumerate(halo.blocks):
        mask = found.device[rank]
        assert mask.sum() == min(device_rows[rank], len(block.halo))
        assert found.received[rank].all()
        if mask.any() and not mask.all():
            assert ratio[block.halo[mask]].min() >= ratio[block.halo[~mask]].max()
    assert decide_rows(halo, device_rows, hosts).region is None


def test_remote_rows_are_written_by_their_readers_in_turn():
    """Two workers of a host read four rows of another host's: each is sent two of them for both."""
    # Vertices 0 to 3 (worker 2, host 1) are read by vertices 4 (worker 0) and 5 (worker 1).
    edges = np.array([[0, 1, 2, 3] * 2, [4] * 4 + [5] * 4])
    halo = build_halo(aggregation_matrix(6, edges, "sage"), np.array([2, 2, 2, 2, 0, 1]), 3)
    found = keep_rows(halo, [0, 0, 0], [0, 0, 1], [4, 0])
    assert found.hosts[0].vertices.tolist() == [0, 2, 1, 3]
    assert found.hosts[0].writer.tolist() == [0, 0, 1, 1]
    assert [mask.tolist() for mask in found.received[:2]] == [[True, False] * 2, [False, True] * 2]
    cache = decide_rows(halo, [0, 0, 0], [0, 0, 1], [4, 0])
    assert cache.region.sent_counts == ((0, 0, 0), (0, 0, 0), (2, 2, 0))
    assert cache.region.written_rows == (2, 2, 0)
    assert cache.num_rows == (0, 0, 0)


def test_rows_of_a_worker_of_the_host_are_not_sent_at_all():
    """Their owner writes them."""
    edges = np.array([[0, 0, 1], [1, 2, 2]])
    halo = build_halo(aggregation_matrix(3, edges, "sage"), np.array([0, 1, 2]), 3)
    cache = decide_rows(halo, [0, 0, 0], [0, 0, 0], [2])
    assert cache.region.sent_counts == ((0,) * 3,) * 3
    assert cache.region.written_rows == (1, 1, 0)


@pytest.mark.parametrize("room", [3, 6, 9, 12])
def test_of_equal_ratios_every_owner_is_kept_from_alike(room):
    """Of rows that one worker alone reads, six of one owner and twelve of another, so that no way stays full."""
    sources = np.arange(18)
    edges = np.stack([sources, np.full(18, 18)])
    halo = build_halo(aggregation_matrix(19, edges, "sage"), np.repeat([0, 1, 2], [6, 12, 1]), 3)
    fresh = np.array(decide_rows(halo, [0, 0, room]).fresh_counts)[:, 2]
    assert fresh.tolist() == [6 - room / 3, 12 - 2 * room / 3, 0]
