"""Every host of a cluster measured: what its profiles and its file say, and what is refused before."""

import pytest

from gnnplan.planner import api, cluster_profiles
from gnnplan.planner.cluster import Cluster, DeviceSpec, HostSpec, resolve
from gnnplan.planner.emulation.emulate import _hosts_of
from gnnplan.planner.session import changes_since_profiled
from gnnplan.profiles.catalog import catalog_profile
from gnnplan.profiles.errors import UserError
from gnnplan.profiles.launch import HOSTS_VARIABLE
from gnnplan.profiles.machine import Link, MachineProfile, MeasuredHost

LINK = Link(bytes_per_s=1e7)


@pytest.fixture(autouse=True)
def measured(monkeypatch):
    """What every host's profile is, where nothing is measured."""
    profile = catalog_profile("t4")
    monkeypatch.setattr(cluster_profiles, "profile_hosts", lambda counts, **_: dict.fromkeys(counts, profile))
    monkeypatch.delenv(HOSTS_VARIABLE, raising=False)
    return profile


def host(name, **fields):
    """With one device of the catalog."""
    return HostSpec(name=name, devices=(DeviceSpec(catalog="rtx-3090"),), **fields)


def test_a_profiled_cluster_keeps_what_its_file_says_of_devices(tmp_path, measured):
    """Every host has the profile measured there; counts and memory limits are the user's."""
    devices = (DeviceSpec(catalog="rtx-3090", memory_bytes=2**30), DeviceSpec(catalog="rtx-3090", count=2))
    cluster = Cluster(hosts=(HostSpec(name="a", count=2, devices=devices, region_bytes=7),))
    api.profile_cluster(cluster, tmp_path / "out")
    workers = resolve(Cluster.load(tmp_path / "out" / "cluster.json")).workers
    assert [worker.host for worker in workers] == ["a-0"] * 3 + ["a-1"] * 3
    assert [worker.device_index for worker in workers] == [0, 1, 2] * 2
    assert [worker.memory_bytes for worker in workers] == [2**30, measured.memory_bytes, measured.memory_bytes] * 2
    assert {(worker.profile.split("@")[0], worker.region_bytes) for worker in workers} == {("t4", 7)}


@pytest.mark.long
@pytest.mark.parametrize("network", [None, Link(bytes_per_s=5e7)], ids=["unlimited", "limited"])
def test_a_profiled_cluster_emulates_the_hosts_it_was_made_from(network, tmp_path, monkeypatch):
    """What had no limit when it was profiled has none when plans are run; plans are made for the same links."""
    monkeypatch.setattr(cluster_profiles, "emulated_hosts", lambda: {"free", "tight-0", "tight-1"})
    hosts = (host("free"), host("tight", count=2, cpu_cores=0.3, link=LINK))
    cluster = Cluster(hosts=hosts, network=network)
    api.profile_cluster(cluster, tmp_path)
    saved = Cluster.load(tmp_path / "cluster.json")
    assert _hosts_of(saved) == _hosts_of(cluster)
    assert _hosts_of(saved)[0].link_bytes_per_s == (network and network.bytes_per_s)
    assert [worker.link for worker in resolve(saved).workers] == [worker.link for worker in resolve(cluster).workers]


@pytest.mark.parametrize("limits", [{"cpu_cores": 0.5}, {"link": LINK}], ids=["processor", "link"])
def test_limits_that_are_not_real_are_not_profiled(limits, tmp_path, monkeypatch):
    """One host outside an emulation is this machine, which has none of them; inside its own one it is measured."""
    cluster = Cluster(hosts=(host("a", **limits),))
    for around in ({}, {"b": {}}):
        monkeypatch.setattr(cluster_profiles, "emulated_hosts", lambda around=around: around)
        with pytest.raises(UserError, match=r"host 'a' has limits .* gnnplan emulate CLUSTER -- gnnplan profile"):
            api.profile_cluster(cluster, tmp_path / "out")
    assert not (tmp_path / "out").exists()
    monkeypatch.setattr(cluster_profiles, "emulated_hosts", lambda: {"a": {}})
    assert set(api.profile_cluster(cluster, tmp_path / "out")) == {"a"}


def test_a_host_whose_profile_cannot_be_a_file_is_refused(tmp_path, monkeypatch):
    """It would be written over by the cluster's own file, or lie elsewhere; before anything is measured."""
    monkeypatch.setattr(cluster_profiles, "profile_hosts", lambda *_, **__: pytest.fail("it went on"))
    with pytest.raises(UserError, match="profile 'cluster': it cannot be in a file of that name"):
        api.profile_cluster(Cluster(hosts=(host("cluster"),)), tmp_path)


def test_a_measured_profile_says_under_what_it_was(tmp_path, monkeypatch):
    """Its host, and of all hosts their workers, links and cores; where the file names no link that of the network."""
    monkeypatch.setattr(cluster_profiles, "emulated_hosts", lambda: {"a", "b"})
    hosts = (
        HostSpec(name="a", devices=(DeviceSpec(catalog="t4", count=2),), link=LINK, cpu_cores=0.5),
        HostSpec(name="b", devices=(DeviceSpec(catalog="t4"),)),
    )
    cluster = Cluster(hosts=hosts)
    returned = api.profile_cluster(cluster, tmp_path)
    for name in ("a", "b"):
        profile = MachineProfile.load(tmp_path / f"{name}.json")
        assert profile == returned[name]
        assert profile.host == name
        assert profile.members == (
            MeasuredHost(name="a", num_workers=2, link=LINK, cpu_cores=0.5),
            MeasuredHost(name="b", num_workers=1, link=cluster.link_of(hosts[1])),
        )
    assert changes_since_profiled(resolve(Cluster.load(tmp_path / "cluster.json"))) == []
