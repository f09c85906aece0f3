"""Every set of workers that differs from all others is looked at once."""

from itertools import chain, combinations, product

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gnnplan.planner.cluster import Cluster, DeviceSpec, HostSpec, resolve
from gnnplan.planner.search import workers
from gnnplan.planner.search.workers import subsets
from gnnplan.profiles.machine import Link, MeasuredHost
from tests.planner.test_beside import placed as on_machines


def placement_of(*hosts):
    """Hosts by (device, count of it, bytes/s)."""
    specs = (
        HostSpec(name=f"h{i}", devices=(DeviceSpec(catalog=device, count=count),), link=Link(bytes_per_s=rate))
        for i, (device, count, rate) in enumerate(hosts)
    )
    return resolve(Cluster(hosts=tuple(specs)))


def test_different_workers_have_all_their_subsets():
    """The whole first, single workers last."""
    placement = placement_of(("t4", 1, 1e9), ("v100", 1, 1e9), ("t4", 1, 1e8))
    found = subsets(placement, [1.0, 1.0, 1.0]).ranks
    everything = chain.from_iterable(combinations(range(3), size) for size in (1, 2, 3))
    assert sorted(found) == sorted(everything)
    assert [len(each) for each in found] == [3, 2, 2, 2, 1, 1, 1]


def test_equal_hosts_are_counted():
    """Of four alike it says how many, and takes the first ones."""
    placement = placement_of(*[("t4", 1, 1e9)] * 4)
    assert subsets(placement, [1.0] * 4).ranks == ((0, 1, 2, 3), (0, 1, 2), (0, 1), (0,))


def test_devices_of_one_host_are_taken_in_order():
    """So that the runtime finds those that were planned; whether they share a host's link matters."""
    placement = placement_of(("t4", 2, 1e9), ("t4", 2, 1e9))
    assert subsets(placement, [1.0] * 4).ranks == ((0, 1, 2, 3), (0, 1, 2), (0, 1), (0, 2), (0,))
    uneven = placement_of(("t4", 2, 1e9), ("t4", 2, 1e8))
    assert (2, 3) in subsets(uneven, [1.0] * 4).ranks


def test_faster_workers_come_first_among_as_many():
    """They are the better incumbent."""
    placement = placement_of(("t4", 1, 1e9), ("v100", 1, 1e9))
    assert subsets(placement, [2.0, 1.0]).ranks[1:] == ((1,), (0,))


def test_equal_hosts_of_several_devices_are_counted_by_what_differs():
    """Of three hosts of four there are 124 choices, and 34 that differ; two whole hosts are one of them."""
    placement = placement_of(*[("t4", 4, 1e9)] * 3)
    found = subsets(placement, [1.0] * 12)
    assert found.are_all
    assert len(found.ranks) == 34
    assert tuple(range(8)) in found.ranks


def test_of_many_hosts_whole_ones_are_taken_by_speed():
    """The fastest, the fastest two and so on; alike ones once."""
    placement = placement_of(*[("t4", 8, 1e9)] * 3)
    found = subsets(placement, [1.0] * 24)
    assert not found.are_all
    assert [each for each in found.ranks if len(each) % 8 == 0] == [tuple(range(count)) for count in (24, 16, 8)]
    uneven = placement_of(("t4", 8, 1e9), ("v100", 8, 1e9), ("t4", 8, 1e8))
    found = subsets(uneven, [2.0] * 8 + [1.0] * 8 + [3.0] * 8).ranks
    assert {tuple(range(24)), tuple(range(16)), tuple(range(8, 16))} <= set(found)


@given(st.lists(st.sampled_from([("t4", 1, 1e9), ("t4", 2, 1e9), ("v100", 2, 1e9), ("t4", 2, 1e8)]), max_size=4))
def test_no_more_differ_than_are_counted(hosts):
    """Counted without making them, and made by trying all; equal hosts have exactly as many."""
    placement = placement_of(("t4", 1, 1e9), *hosts)
    size = len(placement.workers)
    kinds = [workers._kind(placement, rank) for rank in range(size)]
    every = (tuple(rank for rank in range(size) if taken[rank]) for taken in product((0, 1), repeat=size))
    shapes = {workers._shape(placement, kinds, ranks) for ranks in every if ranks}
    groups = workers._groups(placement, [1.0] * size, kinds)
    most = workers._most_distinct(placement, kinds, groups)
    assert most == len(shapes) if len(set(hosts)) == 1 and ("t4", 1, 1e9) in hosts else most >= len(shapes)
    found = subsets(placement, [1.0] * size)
    assert len(found.ranks) == len(shapes) if found.are_all else most > 64


@pytest.mark.parametrize("count", [8, 40])
def test_many_different_workers_are_taken_by_speed(count):
    """All, half of them, a quarter ... and the fastest alone: a number that grows with the logarithm."""
    placement = placement_of(*[("t4", 1, 1e9 + rank) for rank in range(count)])
    found = subsets(placement, list(range(1, count + 1))).ranks
    assert len(found) <= count + 10
    assert found[0] == tuple(range(count))
    assert (0,) in found
    assert tuple(range((count + 1) // 2)) in found


def measured(placement):
    """As if every host had been profiled where it is, all on devices of one name."""
    profiles = {}
    for rank, worker in enumerate(placement.workers):
        host = MeasuredHost(name=f"h{rank}", num_workers=1, link=worker.link)
        found = placement.profile_of(rank).model_copy(
            update={"name": f"p{rank}", "members": (host,), "host": f"h{rank}"}
        )
        profiles[f"p{rank}"] = found
    workers = tuple(each.model_copy(update={"profile": f"p{rank}"}) for rank, each in enumerate(placement.workers))
    return placement.model_copy(update={"workers": workers, "profiles": profiles})


def test_of_hosts_that_were_measured_the_fastest_are_taken():
    """Of devices of one name as many slower ones are no better; under other limits they may be."""
    placement = measured(placement_of(*[("t4", 1, 1e9)] * 4))
    assert subsets(placement, [1.02, 1.01, 1.0, 1.2]).ranks == ((0, 1, 2, 3), (0, 1, 2), (1, 2), (2,))
    assert len(subsets(measured(placement_of(*[("t4", 1, 1e9 + rank) for rank in range(4)])), [1.0] * 4).ranks) == 15


def test_published_devices_of_other_names_are_not_alike():
    """However fast they are."""
    placement = placement_of(("t4", 1, 1e9), ("v100", 1, 1e9))
    assert len(subsets(placement, [1.0, 1.0]).ranks) == 3


def test_hosts_beside_each_other_differ_from_hosts_apart(tmp_path):
    """Two hosts of one machine slow each other down, and two of different ones do not: both pairs are looked at."""
    found = subsets(on_machines(tmp_path, ["m", "m", "n", "n"]), [1.0] * 4).ranks
    pairs = {each for each in found if len(each) == 2}
    assert {(0, 1), (0, 2)} <= pairs
