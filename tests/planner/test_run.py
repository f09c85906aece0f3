"""Starting a plan's workers: with what their hosts' profiles say."""

from planner.cluster import Cluster, DeviceSpec, HostSpec, resolve
from planner.run import threads_by_host
from profiles.catalog import catalog_profile


def test_every_host_has_the_threads_it_was_profiled_with(tmp_path):
    """Not those of the first host; within a host, those of its first worker."""
    for threads in (1, 2, 4):
        catalog_profile("t4").model_copy(update={"num_threads": threads}).save(tmp_path / f"{threads}.json")
    devices = {threads: DeviceSpec(profile=tmp_path / f"{threads}.json", count=2) for threads in (1, 2, 4)}
    hosts = (
        HostSpec(name="many", devices=(devices[4],)),
        HostSpec(name="one", devices=(devices[1],)),
        HostSpec(name="both", count=2, devices=(devices[2], devices[1])),
    )
    assert threads_by_host(resolve(Cluster(hosts=hosts))) == {"many": 4, "one": 1, "both-0": 2, "both-1": 2}
