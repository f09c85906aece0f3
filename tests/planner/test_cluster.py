"""A cluster resolves into numbered workers, and every mistake in it is one line that names the key."""

from pathlib import Path

import pytest

from gnnplan.planner.cluster import Cluster, DeviceSpec, HostSpec, expand_hosts, resolve
from gnnplan.profiles.catalog import catalog_names, catalog_profile
from gnnplan.profiles.errors import UserError
from gnnplan.profiles.machine import Link

EXAMPLES = Path(__file__).parents[2] / "examples"
TOML = """
schema_version = 1
name = "mixed"
[network]
bytes_per_s = 1e9
[device_link]
bytes_per_s = 5e9
[[hosts]]
name = "big"
count = 2
price_per_hour = 2.5
[[hosts.devices]]
catalog = "rtx-3090"
count = 2
[[hosts.devices]]
catalog = "t4"
memory_bytes = 1000
[[hosts]]
name = "small"
link = { bytes_per_s = 1e8, latency_s = 1e-3 }
cpu_cores = 0.5
[[hosts.devices]]
catalog = "t4"
"""


def write(folder, text, name="cluster.toml"):
    """A cluster file with the given text."""
    path = folder / name
    path.write_text(text)
    return path


@pytest.fixture
def mixed(tmp_path):
    """Two big hosts of three devices and a small one of one."""
    return Cluster.load(write(tmp_path, TOML))


def fault_of(path):
    """The one line a user sees for a bad cluster file, be it while loading or while resolving."""
    with pytest.raises(UserError) as caught:
        resolve(Cluster.load(path))
    assert "\n" not in str(caught.value)
    return str(caught.value)


def test_workers_are_numbered_host_by_host_device_by_device(mixed):
    """Ranks follow the file's order, replicas of a host one after the other."""
    workers = resolve(mixed).workers
    assert [worker.host for worker in workers] == ["big-0"] * 3 + ["big-1"] * 3 + ["small"]
    assert [worker.host_index for worker in workers] == [0, 0, 0, 1, 1, 1, 2]
    assert [worker.device_index for worker in workers] == [0, 1, 2, 0, 1, 2, 0]


def test_every_worker_has_the_profile_of_its_device(mixed):
    """Profiles are stored once and looked up by rank."""
    placement = resolve(mixed)
    names = [placement.profile_of(rank).name for rank in range(7)]
    assert names == ["rtx-3090", "rtx-3090", "t4"] * 2 + ["t4"]
    assert len(placement.profiles) == 2
    assert placement.profile_of(6) == catalog_profile("t4")


def test_memory_is_the_profiles_unless_the_device_says_otherwise(mixed):
    """`memory_bytes` of a device wins."""
    workers = resolve(mixed).workers
    assert workers[0].memory_bytes == catalog_profile("rtx-3090").memory_bytes
    assert workers[2].memory_bytes == 1000
    assert workers[6].memory_bytes == catalog_profile("t4").memory_bytes


def test_workers_of_a_host_share_its_region(mixed):
    """Each worker knows its host and the region it has there; a host that says nothing has none."""
    big, small = mixed.hosts
    with_region = mixed.model_copy(update={"hosts": (big.model_copy(update={"region_bytes": 500}), small)})
    placement = resolve(with_region)
    assert placement.host_of == (0, 0, 0, 1, 1, 1, 2)
    assert [worker.region_bytes for worker in placement.workers] == [500] * 6 + [0]


def test_hosts_without_a_link_use_the_network(mixed):
    """A host's own link wins over the cluster's network."""
    placement = resolve(mixed)
    assert placement.workers[0].link == Link(bytes_per_s=1e9)
    assert placement.workers[6].link == Link(bytes_per_s=1e8, latency_s=1e-3)
    assert placement.device_link.bytes_per_s == 5e9


def test_hosts_expand_with_their_prices_and_limits(mixed):
    """Every replica keeps what its host says."""
    hosts = expand_hosts(mixed)
    assert [(name, host.price_per_hour) for name, host in hosts] == [("big-0", 2.5), ("big-1", 2.5), ("small", 0.0)]
    assert hosts[2][1].cpu_cores == 0.5


def test_take_keeps_the_first_workers(mixed):
    """Fewer workers are the first ones; more than there are is the user's mistake."""
    placement = resolve(mixed)
    assert placement.take(2).workers == placement.workers[:2]
    with pytest.raises(UserError, match=r"8 workers asked for, the cluster has 7 devices; .*pin.num_workers"):
        placement.take(8)


def test_defaults_are_a_ten_gigabit_network():
    """A cluster need name nothing but its hosts."""
    cluster = Cluster(hosts=(HostSpec(name="a", devices=(DeviceSpec(catalog="t4"),)),))
    assert resolve(cluster).workers[0].link == Link(bytes_per_s=1.25e9, latency_s=50e-6)
    assert [worker.host for worker in resolve(cluster).workers] == ["a"]


@pytest.mark.parametrize("name", ["cluster.toml", "emulated.toml"])
def test_shipped_examples_load(name):
    """A user copies the examples, so they must be valid."""
    assert len(expand_hosts(Cluster.load(EXAMPLES / name))) > 1


def test_json_says_the_same_as_toml(mixed, tmp_path):
    """A cluster saved as JSON is the cluster that was loaded from TOML."""
    assert Cluster.load(mixed.save(tmp_path / "cluster.json")) == mixed


@pytest.mark.parametrize("name", catalog_names())
def test_every_catalog_name_resolves(name):
    """Whatever the catalog lists can be put into a cluster."""
    placement = resolve(Cluster(hosts=(HostSpec(name="a", devices=(DeviceSpec(catalog=name),)),)))
    assert placement.profile_of(0).name == name


def test_relative_profiles_are_taken_from_the_clusters_folder(tmp_path, monkeypatch):
    """A cluster means the same from whatever folder it is used."""
    (tmp_path / "here").mkdir()
    catalog_profile("l4").save(tmp_path / "here" / "l4.json")
    text = "schema_version = 1\n[[hosts]]\nname = 'a'\n[[hosts.devices]]\nprofile = 'l4.json'\n"
    write(tmp_path / "here", text)
    monkeypatch.chdir(tmp_path)
    placement = resolve(Cluster.load("here/cluster.toml"))
    assert placement.profile_of(0) == catalog_profile("l4")


def test_profiles_of_one_name_and_other_figures_are_kept_apart(tmp_path):
    """Two measurements called the same stay two profiles."""
    profile = catalog_profile("l4")
    profile.save(tmp_path / "a.json")
    profile.model_copy(update={"host_overhead_s": 1.0}).save(tmp_path / "b.json")
    devices = tuple(DeviceSpec(profile=tmp_path / name) for name in ("a.json", "b.json"))
    placement = resolve(Cluster(hosts=(HostSpec(name="a", devices=devices),)))
    assert len(placement.profiles) == 2
    assert placement.profile_of(1).host_overhead_s == 1.0


HEAD = "schema_version = 1\n"
HOST = f"{HEAD}[[hosts]]\nname = 'a'\n"
DEVICE = f"{HOST}[[hosts.devices]]\n"
MISTAKES = {
    "no version": ("[[hosts]]\nname = 'a'\n", "schema_version is missing"),
    "other kind": (f"kind = 'job'\n{DEVICE}catalog = 't4'\n", "a 'cluster' file is needed"),
    "no hosts": (HEAD, "hosts: this key is missing"),
    "no host": (f"{HEAD}hosts = []\n", "hosts: "),
    "no devices": (HOST, "hosts.0.devices: this key is missing"),
    "no device": (f"{HOST}devices = []\n", "hosts.0.devices: "),
    "nameless": (f"{HEAD}[[hosts]]\nname = ''\n[[hosts.devices]]\ncatalog = 't4'\n", "hosts.0.name"),
    "neither": (f"{DEVICE}count = 2\n", "give either catalog or profile, not both"),
    "both": (f"{DEVICE}catalog = 't4'\nprofile = 'p.json'\n", "hosts.0.devices.0: "),
    "no count": (f"{DEVICE}catalog = 't4'\ncount = 0\n", "hosts.0.devices.0.count"),
    "no memory": (f"{DEVICE}catalog = 't4'\nmemory_bytes = -1\n", "hosts.0.devices.0.memory_bytes"),
    "unknown device key": (f"{DEVICE}catalog = 't4'\nspeed = 3\n", "hosts.0.devices.0.speed: unknown key"),
    "unknown host key": (f"{HOST}gpus = 3\n[[hosts.devices]]\ncatalog = 't4'\n", "hosts.0.gpus: unknown key"),
    "price": (f"{HOST}price_per_hour = -1\n[[hosts.devices]]\ncatalog = 't4'\n", "hosts.0.price_per_hour"),
    "cores": (f"{HOST}cpu_cores = 0\n[[hosts.devices]]\ncatalog = 't4'\n", "hosts.0.cpu_cores"),
    "link": (f"{HOST}link = {{ bytes_per_s = 0 }}\n[[hosts.devices]]\ncatalog = 't4'\n", "hosts.0.link.bytes_per_s"),
    "latency": (f"{DEVICE}catalog = 't4'\n[network]\nbytes_per_s = 1\nlatency_s = -1\n", "network.latency_s"),
    "unknown name": (f"{DEVICE}catalog = 'rtx 3090'\n", "did you mean rtx-3090"),
    "wild name": (f"{DEVICE}catalog = 'abacus'\n", "'abacus' is unknown; the catalog has"),
    "missing profile": (f"{DEVICE}profile = 'p.json'\n", "p.json: no such file"),
}


@pytest.mark.parametrize("mistake", MISTAKES)
def test_every_mistake_names_its_key_in_one_line(mistake, tmp_path):
    """The line holds the key and the fault."""
    text, wanted = MISTAKES[mistake]
    assert wanted in fault_of(write(tmp_path, text))


PROFILES = {
    "not JSON": ("{", "not valid JSON"),
    "empty": ("", "not valid JSON"),
    "another kind": ('{"kind": "plan", "schema_version": 1}', "a 'machine_profile' file is needed"),
    "another version": ('{"schema_version": 7}', "schema_version is 7"),
    "keys missing": ('{"schema_version": 1}', "name: this key is missing"),
}


@pytest.mark.parametrize("damage", PROFILES)
def test_bad_profile_is_named_by_its_path(damage, tmp_path):
    """The fault is the profile's, so the line starts with the profile and not the cluster."""
    text, wanted = PROFILES[damage]
    profile = write(tmp_path, text, "p.json")
    fault = fault_of(write(tmp_path, f"{DEVICE}profile = 'p.json'\n"))
    assert fault.startswith(f"{profile}: ")
    assert wanted in fault


@pytest.mark.parametrize(("name", "count"), [("a", 1), ("a-1", 1), ("a", 2)])
def test_two_hosts_never_carry_one_name(name, count, tmp_path):
    """Workers are launched by host name, so replicas too must differ from every other host."""
    hosts = [("a", 2 if name == "a-1" or count == 2 else 1), (name, count)]
    text = HEAD + "".join(
        f"[[hosts]]\nname = '{name}'\ncount = {count}\n[[hosts.devices]]\ncatalog = 't4'\n" for name, count in hosts
    )
    assert "two hosts are called" in fault_of(write(tmp_path, text))


def test_every_host_has_the_workers_of_its_devices_and_the_threads_it_was_profiled_with(tmp_path):
    """Not the threads of the first host; within a host, those of its first worker."""
    for threads in (1, 2, 4):
        catalog_profile("t4").model_copy(update={"num_threads": threads}).save(tmp_path / f"{threads}.json")
    devices = {threads: DeviceSpec(profile=tmp_path / f"{threads}.json", count=2) for threads in (1, 2, 4)}
    hosts = (
        HostSpec(name="many", devices=(devices[4],)),
        HostSpec(name="one", devices=(devices[1],)),
        HostSpec(name="both", count=2, devices=(devices[2], devices[1])),
    )
    placement = resolve(Cluster(hosts=hosts))
    assert placement.threads_by_host == {"many": 4, "one": 1, "both-0": 2, "both-1": 2}
    assert list(placement.workers_by_host.items()) == [("many", 2), ("one", 2), ("both-0", 4), ("both-1", 4)]
