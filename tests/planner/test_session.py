"""Collectives measured side by side are those of the very hosts they were measured among, as these were limited."""

import pytest

from gnnplan.planner.cluster import DeviceSpec, resolve
from gnnplan.planner.network import Network
from gnnplan.planner.session import changes_since_profiled
from gnnplan.profiles.machine import Link
from tests.planner.link_model import MBIT, MIB, LinkModel

TWO = LinkModel((1, 1), (1000 * MBIT, 500 * MBIT))
THREE = LinkModel((1, 1, 1), (1000 * MBIT, 1000 * MBIT, 100 * MBIT))
ALONE = LinkModel((2,), (1000 * MBIT,))


def edited(cluster, index, **changes):
    """The cluster with another host of this index."""
    hosts = list(cluster.hosts)
    hosts[index] = hosts[index].model_copy(update=changes)
    return cluster.model_copy(update={"hosts": tuple(hosts)})


def is_a_guess(cluster):
    """Whether its collectives are; all are or none is."""
    guesses = guesses_of(cluster)
    assert len(set(guesses)) == 1
    return guesses[0]


def guesses_of(cluster):
    """Whether its sums are, and its exchanges."""
    network = Network(resolve(cluster))
    sent = THREE.sent(w0_1=MIB)[: network.num_workers, : network.num_workers]
    return network.all_reduce(MIB).unprofiled, network.all_to_all(sent).unprofiled


@pytest.mark.long
def test_the_hosts_that_were_profiled_are_not_a_guess(tmp_path):
    """In any order, and whatever the file calls them; nor is a host that was profiled alone."""
    cluster = THREE.cluster(tmp_path)
    assert not is_a_guess(cluster)
    assert not is_a_guess(edited(cluster, 0, name="renamed"))
    backwards = cluster.model_copy(update={"hosts": cluster.hosts[::-1]})
    assert not is_a_guess(backwards)
    fast_s = Network(resolve(backwards)).all_to_all(THREE.sent(w1_2=MIB)).seconds
    assert fast_s == pytest.approx(THREE.seconds(THREE.sent(w0_1=MIB)), rel=0.05)
    assert not is_a_guess(ALONE.cluster(tmp_path, [ALONE.profiles()[0].model_copy(update={"session": ""})]))


@pytest.mark.long
@pytest.mark.parametrize(
    "changes",
    [
        {"link": Link(bytes_per_s=1000 * MBIT)},
        {"link": Link(bytes_per_s=500 * MBIT, latency_s=1e-3)},
        {"link": None},
        {"cpu_cores": 0.8},
        {"cpu_cores": None},
    ],
    ids=["rate", "latency", "no link", "cores", "no cores"],
)
def test_hosts_with_other_limits_are_a_guess(changes, tmp_path):
    """Where the cluster file is edited after profiling, the answer is that of the edited one, and marked."""
    cluster = edited(TWO.cluster(tmp_path), 1, **changes)
    assert is_a_guess(cluster)
    host = cluster.hosts[1]
    rate = min(1000 * MBIT, cluster.link_of(host).bytes_per_s)
    seconds = Network(resolve(cluster)).all_to_all(TWO.sent(w0_1=MIB)).seconds
    assert seconds == pytest.approx(MIB / rate, rel=0.2)


@pytest.mark.long
@pytest.mark.parametrize("version", ["members", "session alone"])
def test_other_hosts_with_the_same_profiles_are_a_guess(version, tmp_path):
    """One profile for two hosts, and several workers where one was profiled."""
    profiles = THREE.profiles()
    if version == "session alone":
        profiles = [profile.model_copy(update={"members": (), "host": ""}) for profile in profiles]
    three = THREE.cluster(tmp_path, profiles)
    assert not is_a_guess(three)
    assert is_a_guess(edited(three, 1, devices=three.hosts[0].devices))
    for count, num_hosts in ((2, 2), (3, 1)):
        several = edited(three, 0, devices=(DeviceSpec(profile=tmp_path / "h0.json", count=count),))
        assert is_a_guess(several.model_copy(update={"hosts": several.hosts[:num_hosts]}))
    mixed = (DeviceSpec(catalog="t4"),)
    assert is_a_guess(edited(three, 2, devices=mixed))


def test_some_of_the_hosts_exchange_over_what_was_measured(tmp_path):
    """A sum over them alone was not; profiles that do not tell who was there say nothing of some."""
    three = THREE.cluster(tmp_path)
    assert guesses_of(three.model_copy(update={"hosts": three.hosts[:2]})) == (True, False)
    profiles = [profile.model_copy(update={"members": (), "host": ""}) for profile in THREE.profiles()]
    old = THREE.cluster(tmp_path, profiles)
    assert guesses_of(old.model_copy(update={"hosts": old.hosts[:2]})) == (True, True)


def test_hosts_of_two_sessions_are_a_guess(tmp_path):
    """Profiled one after the other nobody knows what is between them."""
    first, second = TWO.profiles()
    assert is_a_guess(TWO.cluster(tmp_path, [first, second.model_copy(update={"session": "later"})]))


def test_nothing_passes_the_link_of_one_host(tmp_path):
    """So another link changes nothing; other cores do."""
    cluster = ALONE.cluster(tmp_path)
    faster = edited(cluster, 0, link=Link(bytes_per_s=1e12))
    assert not is_a_guess(faster)
    assert changes_since_profiled(resolve(faster)) == []
    assert is_a_guess(edited(cluster, 0, cpu_cores=1.0))


def test_changes_are_said_in_words(tmp_path):
    """Host by host; nothing of hosts as they were."""
    cluster = TWO.cluster(tmp_path)
    assert changes_since_profiled(resolve(cluster)) == []
    other = edited(cluster, 1, link=Link(bytes_per_s=1000 * MBIT), cpu_cores=0.8)
    assert changes_since_profiled(resolve(other)) == [
        "h1: link 1000 Mbit/s, profiled with 500 Mbit/s",
        "h1: cpu_cores 0.8, profiled with 0.5",
    ]
    unlimited = edited(cluster, 0, cpu_cores=None, link=Link(bytes_per_s=1000 * MBIT, latency_s=0.001))
    assert changes_since_profiled(resolve(unlimited)) == [
        "h0: link 1000 Mbit/s and 0.001 s, profiled with 1000 Mbit/s",
        "h0: cpu_cores no limit, profiled with 0.5",
    ]


def test_other_cores_make_all_figures_of_a_worker_guesses(tmp_path):
    """Those that the file names; where it names none the profile stands for the device."""
    cluster = TWO.cluster(tmp_path)
    for cores, expected in ((0.5, False), (0.8, True), (None, False)):
        placement = resolve(edited(cluster, 1, cpu_cores=cores))
        assert [placement.has_other_cores(worker) for worker in (0, 1)] == [False, expected]
