"""Collectives take what the busiest link needs, or what was measured."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gnnplan.planner.cluster import Cluster, DeviceSpec, HostSpec, resolve
from gnnplan.planner.network import Network
from gnnplan.profiles.catalog import catalog_profile
from gnnplan.profiles.curves import Estimate
from gnnplan.profiles.machine import CollectiveTable, Link, OperatorTable, Point

FAST = Link(bytes_per_s=1e10, latency_s=1e-6)


def network(*devices_of_hosts, links=None, device_link=FAST):
    """Hosts with so many devices each, on links of 1 GB/s and 1 ms unless given."""
    links = links or [Link(bytes_per_s=1e9, latency_s=1e-3)] * len(devices_of_hosts)
    hosts = tuple(
        HostSpec(name=f"h{i}", devices=(DeviceSpec(catalog="t4", count=count),), link=link)
        for i, (count, link) in enumerate(zip(devices_of_hosts, links, strict=True))
    )
    return Network(resolve(Cluster(hosts=hosts, device_link=device_link)))


def sent(num_workers, **amounts):
    """A matrix of bytes from `w0_1=...` for worker 0 to worker 1."""
    matrix = np.zeros((num_workers, num_workers), np.int64)
    for key, amount in amounts.items():
        matrix[tuple(int(part) for part in key.removeprefix("w").split("_"))] = amount
    return matrix


def test_two_hosts_take_latency_and_the_bytes_over_the_link():
    """One gigabyte over one gigabyte a second takes a second."""
    estimate = network(1, 1).all_to_all(sent(2, w0_1=10**9))
    assert estimate == Estimate(pytest.approx(1.001), 0.0, True)


def test_devices_of_one_host_share_its_link():
    """Two devices that each send half a gigabyte away fill the one link for a second."""
    shared = network(2, 2).all_to_all(sent(4, w0_2=5 * 10**8, w1_3=5 * 10**8))
    assert shared.seconds == pytest.approx(1.001)
    own = network(1, 1, 1, 1).all_to_all(sent(4, w0_2=5 * 10**8, w1_3=5 * 10**8))
    assert own.seconds == pytest.approx(0.501)


def test_a_port_is_the_slower_of_what_rows_pass():
    """Within a host the devices' link, between hosts also the host's own, whatever the other host has."""
    slow = Link(bytes_per_s=1e7, latency_s=1e-3)
    uneven = network(1, 1, links=[Link(bytes_per_s=1e9, latency_s=1e-3), slow])
    assert uneven.port_s(0, 1e9) == pytest.approx(1.001)
    assert uneven.port_s(1, 1e9) == pytest.approx(100.001)
    assert network(2).port_s(1, 1e9) == pytest.approx(0.1 + 1e-6)
    assert network(2).port_s(1, 0) == network(1).port_s(0, 1e9) == 0


def test_two_workers_alone_pass_what_lies_between_them():
    """The devices' link of one host, and between hosts the slower of theirs too."""
    slow = Link(bytes_per_s=1e7, latency_s=1e-3)
    net = network(2, 1, 1, links=[Link(bytes_per_s=1e9, latency_s=1e-3)] * 2 + [slow])
    assert net.pair_s(0, 1, 1e9) == pytest.approx(0.1 + 1e-6)
    assert net.pair_s(0, 2, 1e9) == net.pair_s(2, 1, 1e9) == pytest.approx(1.001)
    assert net.pair_s(0, 3, 1e9) == net.pair_s(3, 2, 1e9) == pytest.approx(100.001)
    assert net.pair_s(0, 0, 1e9) == net.pair_s(0, 1, 0) == 0


def test_ports_of_one_host_share_its_link_for_what_leaves_it_alone():
    """Rows between its devices pass the devices' link; who has rows that leave waits for those of the others."""
    net = network(2, 2)
    inside = net.ports_s(sent(4, w0_1=10**9))
    assert inside.tolist() == pytest.approx([0.1 + 1e-6, 0.1 + 1e-6, 0, 0])
    both = net.ports_s(sent(4, w0_2=5 * 10**8, w1_3=5 * 10**8))
    assert both.tolist() == pytest.approx([1.001] * 4)
    one = net.ports_s(sent(4, w0_1=10**8, w0_2=10**9))
    assert one.tolist() == pytest.approx([1.001, 0.01 + 1e-6, 1.001, 0])
    alone = network(1, 1)
    assert alone.ports_s(sent(2, w0_1=10**9)).tolist() == [alone.port_s(rank, 1e9) for rank in (0, 1)]


def test_links_carry_both_directions_at_once():
    """A host that sends and receives the same takes no longer than one that only sends."""
    one_way = network(1, 1).all_to_all(sent(2, w0_1=10**9))
    both = network(1, 1).all_to_all(sent(2, w0_1=10**9, w1_0=10**9))
    assert both.seconds == one_way.seconds


def test_uneven_bytes_are_bound_by_the_busiest_host():
    """What the others send hides behind the host that sends most."""
    net = network(1, 1, 1)
    busiest = net.all_to_all(sent(3, w0_1=10**9))
    hidden = net.all_to_all(sent(3, w0_1=10**9, w1_2=10**8, w2_0=10**8))
    assert hidden.seconds == busiest.seconds
    fan_in = net.all_to_all(sent(3, w0_1=10**9, w2_1=10**9))
    assert fan_in.seconds == pytest.approx(2.001)


def test_the_slow_host_sets_the_pace_where_it_is_the_bottleneck():
    """A tenth of the rate takes ten times as long, if that host has to carry the bytes."""
    links = [Link(bytes_per_s=1e9), Link(bytes_per_s=1e9), Link(bytes_per_s=1e8)]
    net = network(1, 1, 1, links=links)
    assert net.all_to_all(sent(3, w0_2=10**9)).seconds == pytest.approx(10)
    assert net.all_to_all(sent(3, w0_1=10**9)).seconds == pytest.approx(1)


def test_traffic_inside_a_host_takes_the_device_link():
    """Bytes that never leave the host do not touch its network."""
    inside = network(2, 2, device_link=Link(bytes_per_s=1e10)).all_to_all(sent(4, w0_1=10**9))
    assert inside.seconds == pytest.approx(0.1)
    alone = network(2, device_link=Link(bytes_per_s=1e10)).all_to_all(sent(2, w0_1=10**9))
    assert alone.seconds == pytest.approx(0.1)


def test_ring_all_reduce_moves_the_buffer_nearly_twice():
    """2 (W - 1) / W of the buffer over the slowest link, and 2 (W - 1) latencies."""
    assert network(1, 1, 1, 1).all_reduce(10**9).seconds == pytest.approx(2 * 3 / 4 + 6e-3)
    links = [Link(bytes_per_s=1e9, latency_s=1e-3), Link(bytes_per_s=1e8, latency_s=1e-6)]
    assert network(1, 1, links=links).all_reduce(10**8).seconds == pytest.approx(1 + 2e-3)
    assert network(2).all_reduce(10**10).seconds == pytest.approx(1 + 2e-6)


@settings(max_examples=15, deadline=None)
@given(st.lists(st.integers(1, 3), min_size=2, max_size=4), st.integers(0, 999))
def test_all_to_all_holds_its_own_lower_bound_and_is_monotone(counts, seed):
    """Never faster than any host's link allows, and more bytes never take less time."""
    net = network(*counts)
    rng = np.random.default_rng(seed)
    matrix = rng.integers(0, 10**9, (sum(counts),) * 2)
    np.fill_diagonal(matrix, 0)
    seconds = net.all_to_all(matrix).seconds
    host = np.repeat(np.arange(len(counts)), counts)
    for index in range(len(counts)):
        leaving = matrix[np.ix_(host == index, host != index)].sum()
        assert seconds >= leaving / 1e9
    assert net.all_to_all(matrix + rng.integers(0, 10**6, matrix.shape)).seconds >= seconds
    assert net.all_to_all(matrix.T).seconds == pytest.approx(seconds)


def collective(name, num_workers, bytes_per_s=1e6):
    """A measured collective that is a straight line through 0, and whose processor time is a tenth of it."""
    table, processor = (
        OperatorTable(
            axes=("num_bytes",),
            points=tuple(
                Point(shape=(size,), median_s=share * size / bytes_per_s, spread_s=1e-3) for size in (1e3, 1e6)
            ),
        )
        for share in (1, 0.1)
    )
    return CollectiveTable(collective=name, backend="gloo", num_workers=num_workers, table=table, processor=processor)


def measured_network(tmp_path, num_measured, *devices_of_hosts):
    """Devices whose profile holds measured collectives among `num_measured` workers."""
    tables = tuple(collective(name, num_measured) for name in ("all_reduce", "all_to_all"))
    path = catalog_profile("t4").model_copy(update={"collectives": tables}).save(tmp_path / "t4.json")
    hosts = tuple(
        HostSpec(name=f"h{i}", devices=(DeviceSpec(profile=path, count=count),))
        for i, count in enumerate(devices_of_hosts)
    )
    return Network(resolve(Cluster(hosts=hosts)))


def test_measured_collectives_win_on_the_host_they_were_measured_on(tmp_path):
    """The busiest worker's bytes are looked up, with their spread, and are not called unprofiled."""
    net = measured_network(tmp_path, 2, 2)
    for estimate in (net.all_reduce(5e5), net.all_to_all(sent(2, w0_1=200_000, w1_0=500_000))):
        assert (estimate.seconds, estimate.spread_s) == (pytest.approx(0.5), pytest.approx(1e-3))
        assert not estimate.unprofiled
    assert net.all_reduce(5e5).parts == (("all_reduce", pytest.approx(0.5)),)


def test_processor_time_goes_by_what_a_worker_sends_and_receives(tmp_path):
    """Half of both together, looked up for each worker; nothing where the collectives are not measured."""
    net = measured_network(tmp_path, 2, 2)
    rows = sent(2, w0_1=200_000, w1_0=600_000)
    for processor, seconds in ((net.all_to_all_processor(rows), 0.04), (net.all_reduce_processor(5e5), 0.05)):
        assert processor == [Estimate(pytest.approx(seconds), pytest.approx(1e-3), False)] * 2
    assert [found.unprofiled for found in net.all_to_all_processor(5 * rows)] == [True, True]
    assert [found.unprofiled for found in net.all_reduce_processor(100.0)] == [True, True]
    assert network(1, 1).all_to_all_processor(rows) == [Estimate(0.0, 0.0, False)] * 2
    assert network(1, 1).all_reduce_processor(5e5) == [Estimate(0.0, 0.0, False)] * 2


def ported_network(tmp_path, shared_bytes_per_s, *ports_bytes_per_s):
    """Hosts profiled side by side before pairs were: one device each, rates of their ports and of what all share."""
    size, hosts = len(ports_bytes_per_s), []
    for index, rate in enumerate(ports_bytes_per_s):
        tables = (
            collective("all_reduce", size),
            collective("all_to_all", size, shared_bytes_per_s),
            collective("all_to_all_port", size, rate),
        )
        profile = catalog_profile("t4").model_copy(update={"collectives": tables, "session": "s", "name": f"h{index}"})
        path = profile.save(tmp_path / f"h{index}.json")
        hosts.append(HostSpec(name=f"h{index}", devices=(DeviceSpec(profile=path),)))
    return Network(resolve(Cluster(hosts=tuple(hosts))))


@pytest.mark.long
@pytest.mark.parametrize(
    ("amounts", "is_guess"),
    [
        ({"w0_1": 500_000}, False),
        ({"w0_1": 500_000, "w2_0": 500}, True),  # a port that is not the slowest
        ({"w0_1": 1200}, True),  # ports and the slowest of them were measured, 800 bytes on average were not
        ({"w0_1": 2_000_000}, True),
    ],
)
def test_any_port_outside_what_was_measured_makes_a_guess(amounts, is_guess, tmp_path):
    """So do bytes at which nobody knows what ports cost each other."""
    net = ported_network(tmp_path, 1e6, 1e6, 1e6, 1e6)
    assert net.all_to_all(sent(3, **amounts)).unprofiled == is_guess


def test_a_measured_port_is_looked_up(tmp_path):
    """Each worker's own; without ports the exchange in which all take part."""
    net = ported_network(tmp_path, 1e5, 1e6, 1e6, 1e5)
    assert [net.port_s(rank, 500_000) for rank in range(3)] == pytest.approx([0.5, 0.5, 5.0])
    assert net.pair_s(0, 2, 500_000) == pytest.approx(5.0)
    assert measured_network(tmp_path, 2, 2).port_s(0, 200_000) == pytest.approx(0.2)


@pytest.mark.parametrize("devices", [(3,), (1, 1)], ids=["other number of workers", "other hosts"])
def test_measured_collectives_are_not_used_elsewhere(devices, tmp_path):
    """Another number of workers, or a network between them, falls back on the links and says so."""
    net = measured_network(tmp_path, 2, *devices)
    assert net.all_reduce(5e5).unprofiled
    assert net.all_to_all(sent(sum(devices), w0_1=200_000)).unprofiled


@pytest.mark.parametrize("measured", [False, True])
def test_an_exchange_of_nothing_is_allowed(measured, tmp_path):
    """A partition without cut edges has no rows to send; the collective costs its latency at most."""
    net = measured_network(tmp_path, 2, 2) if measured else network(1, 1)
    assert 0 <= net.all_to_all(sent(2)).seconds <= 1.1e-3


def test_workers_of_a_host_meet_as_fast_as_a_small_sum(tmp_path):
    """Where one was measured among them alone; else two messages between devices, marked, whatever the hosts' links."""
    measured = measured_network(tmp_path, 2, 2)
    assert measured.meet().seconds == measured.all_reduce(4).seconds > 0
    assert (measured.meet().parts, measured.meet().unprofiled) == ((), measured.all_reduce(4).unprofiled)
    for net in (network(2, 2), network(3)):
        assert net.meet() == Estimate(2e-6, 0.0, True)
