"""The steps as plain functions: what they do beside calling the next floor."""

from planner import api
from planner.cluster import Cluster, DeviceSpec, HostSpec, resolve
from profiles.catalog import catalog_profile


def test_a_profiled_cluster_keeps_what_its_file_says_of_devices(tmp_path, monkeypatch):
    """Every host has the profile measured there; counts and memory limits are the user's."""
    measured = catalog_profile("t4")
    monkeypatch.setattr(api, "profile_hosts", lambda counts, **_: dict.fromkeys(counts, measured))
    devices = (DeviceSpec(catalog="rtx-3090", memory_bytes=2**30), DeviceSpec(catalog="rtx-3090", count=2))
    cluster = Cluster(hosts=(HostSpec(name="a", count=2, devices=devices, region_bytes=7),))
    api.profile_cluster(cluster, tmp_path / "out")
    workers = resolve(Cluster.load(tmp_path / "out" / "cluster.json")).workers
    assert [worker.host for worker in workers] == ["a-0"] * 3 + ["a-1"] * 3
    assert [worker.device_index for worker in workers] == [0, 1, 2] * 2
    assert [worker.memory_bytes for worker in workers] == [2**30, measured.memory_bytes, measured.memory_bytes] * 2
    assert {(worker.profile.split("@")[0], worker.region_bytes) for worker in workers} == {("t4", 7)}
