"""The region holds what serves most readers, the devices the rest, and no row is held twice for one worker."""

from itertools import combinations

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from benchmarks.oracles.tiers import arrange


@st.composite
def local_halos(draw, most_workers=4):
    """Distinct halo vertices of some local workers, few enough to look at every choice."""
    num_workers = draw(st.integers(1, most_workers))
    halo = st.lists(st.integers(0, 9), unique=True, max_size=8).map(lambda ids: np.array(ids, np.int64))
    return [draw(halo) for _ in range(num_workers)]


def num_hits(halos, device_rows, region):
    """Rows found where the region holds `region` and every device the most it can of the rest."""
    found = 0
    for halo in halos:
        shared = int(np.isin(halo, list(region)).sum())
        found += shared + min(device_rows, len(halo) - shared)
    return found


@settings(deadline=None)
@given(local_halos(), st.integers(0, 6), st.integers(0, 6))
def test_capacities_hold_and_nothing_is_held_twice(halos, device_rows, region_rows):
    """Devices hold rows of their own halo that the region does not have."""
    tiers = arrange(halos, device_rows, region_rows)
    assert len(tiers.region) == len(set(tiers.region.tolist())) <= region_rows
    for halo, device in zip(halos, tiers.device, strict=True):
        assert len(device) <= device_rows
        assert set(device.tolist()) <= set(halo.tolist()) - set(tiers.region.tolist())


@settings(deadline=None, max_examples=60)
@given(local_halos(most_workers=2), st.integers(0, 6), st.integers(0, 4))
def test_no_choice_finds_more_for_two_workers(halos, device_rows, region_rows):
    """Every other content of the region was looked at."""
    tiers = arrange(halos, device_rows, region_rows)
    hits = num_hits(halos, device_rows, tiers.region)
    assert hits == sum(map(len, tiers.device)) + sum(int(np.isin(halo, tiers.region).sum()) for halo in halos)
    everything = sorted(set(np.concatenate(halos).tolist()))
    size = min(region_rows, len(everything))
    assert hits == max(num_hits(halos, device_rows, region) for region in combinations(everything, size))


def test_vertices_read_by_more_workers_come_first():
    """By overlap ratio: 3, then 2, then 1."""
    halos = [np.array([1, 2, 3, 4]), np.array([1, 2, 5, 6]), np.array([1, 7, 8, 9])]
    assert arrange(halos, 0, 1).region.tolist() == [1]
    assert sorted(arrange(halos, 0, 2).region.tolist()) == [1, 2]


def test_rows_a_device_has_room_for_are_left_to_it():
    """A worker that keeps all its halo needs nothing of the region, whatever others read."""
    halos = [np.arange(2), np.arange(10, 16)]
    region = arrange(halos, 2, 3).region
    assert set(region.tolist()) <= set(range(10, 16))
    assert len(region) == 3
