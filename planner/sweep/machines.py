"""The machines of a sweep, each with what it is called, costs and draws."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import lru_cache
from itertools import product
from pathlib import Path

from gnnplan.planner.cluster import Cluster, Placement, WorkerPlace, resolve
from gnnplan.planner.crowd import HostKind
from gnnplan.planner.device_link import default_device_link
from gnnplan.planner.statistics.machine import Machine, machine_of
from gnnplan.planner.sweep.contract import Machines, Sweep, SweptDevice
from gnnplan.profiles.catalog import catalog_profile, published_profile
from gnnplan.profiles.catalog.devices import Device, Figure
from gnnplan.profiles.errors import UserError
from gnnplan.profiles.machine import Link, MachineProfile

_DEVICE_LATENCY_S = 20e-6
_NO_NETWORK = Link(bytes_per_s=1e9, latency_s=0.0)  # of one host, where nothing passes it


@dataclass(frozen=True)
class Asked:
    """A machine that is asked about.

    Args:
        network_bytes_per_s: of a host's link (None: there is one host, or links differ).
        cores_per_worker: of the processor; where hosts differ the fewest, for whom all wait (None: unknown).
        watts: of all devices and hosts at work (None: unknown).
        placement: of every worker, of a cluster file (None: all workers are alike).
        is_priced: its price is known, be it zero.
    """

    name: str
    machine: Machine
    device: str
    num_hosts: int
    per_host: int
    memory_bytes: int
    network_bytes_per_s: float | None
    watts: float | None
    cores_per_worker: float | None = None
    placement: Placement | None = None
    is_priced: bool = False


def count_machines(sweep: Sweep) -> int:
    """How many there are at most, one host counted with every network."""
    return len(sweep.clusters) + sum(
        len(each.devices)
        * len(each.per_host)
        * len(each.hosts)
        * len(each.network_bytes_per_s)
        * max(1, len(each.device_link_bytes_per_s))
        * max(1, len(each.memory_bytes))
        * max(1, len(each.cores_per_host))
        for each in sweep.machines
    )


def machines_of(sweep: Sweep, *, with_cores: bool = False) -> Iterator[Asked]:
    """Every machine once; a network is of no account where there is one host, nor a device's link where it is alone.

    Args:
        with_cores: machines with more cores of their hosts are others.

    Raises `UserError` where two cluster files have one name.
    """
    seen: dict[str, Asked] = {}
    for each in sweep.machines:
        for device, hosts, per_host in product(each.devices, each.hosts, each.per_host):
            networks = each.network_bytes_per_s if hosts > 1 else each.network_bytes_per_s[:1]
            links: tuple[float | None, ...] = each.device_link_bytes_per_s or (None,)
            links = links if per_host > 1 else links[:1]
            cores_of: tuple[int | None, ...] = (each.cores_per_host if with_cores else ()) or (None,)
            memories: tuple[int | None, ...] = each.memory_bytes or (None,)
            for network, link, memory, cores in product(networks, links, memories, cores_of):
                asked = _asked(sweep, each, device, hosts, per_host, network, link, memory, cores)
                while (other := seen.get(asked.name)) and not _are_alike(asked, other):
                    asked = replace(asked, name=_told_apart(asked, other))
                if not other:
                    seen[asked.name] = asked
                    yield asked
    for path in sweep.clusters:
        asked = _cluster(path)
        if asked.name in seen:
            raise UserError(f"{sweep.name}: two of its machines are called {asked.name}; name the cluster files apart")
        seen[asked.name] = asked
        yield asked


def _are_alike(one: Asked, other: Asked) -> bool:
    return (one.machine, one.watts, one.is_priced) == (other.machine, other.watts, other.is_priced)


def _told_apart(asked: Asked, other: Asked) -> str:
    """The name of a machine that another one has too, with what it has otherwise."""
    own, its = asked.machine, other.machine
    latency_s, its_latency_s = own.placement.workers[0].link.latency_s, its.placement.workers[0].link.latency_s
    words = {
        f"latency {latency_s * 1e6:g} us": latency_s != its_latency_s,
        f"${own.price_per_hour:g} an hour" if asked.is_priced else "no price": (
            (own.price_per_hour, asked.is_priced) != (its.price_per_hour, other.is_priced)
        ),
        f"{asked.watts or 0:g} W": asked.watts != other.watts,
    }
    found = [each for each, differs in words.items() if differs and each not in asked.name]
    return f"{asked.name}, {found[0] if found else 'another'}"


def _asked(
    sweep: Sweep,
    of: Machines,
    device: str,
    num_hosts: int,
    per_host: int,
    network_bytes_per_s: float,
    link_bytes_per_s: float | None,
    memory_bytes: int | None,
    cores: int | None,
) -> Asked:
    swept, profile = sweep.device.get(device, SweptDevice()), device_profile(sweep, device)
    network = Link(bytes_per_s=network_bytes_per_s, latency_s=of.network_latency_s) if num_hosts > 1 else _NO_NETWORK
    device_link = default_device_link([profile])
    if link_bytes_per_s and per_host > 1:
        device_link = Link(bytes_per_s=link_bytes_per_s, latency_s=_DEVICE_LATENCY_S)
    worker = WorkerPlace(
        host="host",
        host_index=0,
        device_index=0,
        profile=profile.name,
        link=network,
        memory_bytes=memory_bytes or profile.memory_bytes,
    )
    count = num_hosts * per_host
    of_devices = swept.price_per_hour
    price = 0.0 if of_devices is None else count * of_devices + num_hosts * of.host_price_per_hour  # 0: unknown
    watts = None if swept.watts is None else count * swept.watts + num_hosts * of.host_watts
    placement = Placement(workers=(worker,), profiles={profile.name: profile}, device_link=device_link)
    machine = Machine(placement, (count,), (HostKind(network, (per_host,)),), price)
    words = f"{num_hosts} x {per_host} {device}" if num_hosts > 1 else f"{per_host} {device}"
    words += f", {network_bytes_per_s * 8e-9:g} Gbit/s" if num_hosts > 1 else ""
    words += f", device link {link_bytes_per_s * 1e-9:g} GB/s" if link_bytes_per_s and per_host > 1 else ""
    words += f", {memory_bytes * 1e-9:g} GB each" if memory_bytes else ""
    words += f", {cores} cores" if cores else ""
    network_or_none = network_bytes_per_s if num_hosts > 1 else None
    each = cores / per_host if cores else None
    return Asked(
        words,
        machine,
        device,
        num_hosts,
        per_host,
        worker.memory_bytes,
        network_or_none,
        watts,
        each,
        is_priced=of_devices is not None,
    )


def device_profile(sweep: Sweep, name: str) -> MachineProfile:
    """The profile of a device that a sweep names."""
    swept = sweep.device.get(name)
    return _described(name, swept) if swept and swept.is_described else catalog_profile(name)


@lru_cache(maxsize=256)
def _described(name: str, swept: SweptDevice) -> MachineProfile:
    def figure(value: float | None) -> Figure:
        assert value is not None
        return Figure(value=value, source="sweep", provenance="published")

    device = Device(
        display_name=name,
        architecture=swept.shares_like,
        memory_bytes=figure(swept.memory_bytes),
        fp32_flops=figure(swept.flops_per_s),
        memory_bytes_per_s=figure(swept.memory_bytes_per_s),
        pcie_bytes_per_s=figure(swept.link_bytes_per_s),
    )
    return published_profile(name, device)


def _cluster(path: Path) -> Asked:
    cluster = Cluster.load(path)
    placement = resolve(cluster)
    machine, workers = machine_of(placement), placement.workers
    devices = dict.fromkeys(placement.profile_of(rank).name for rank in range(len(workers)))
    num_hosts, links = len(set(placement.host_of)), {worker.link.bytes_per_s for worker in workers}
    network = links.pop() if num_hosts > 1 and len(links) == 1 else None
    memory = min(worker.memory_bytes for worker in workers)
    return Asked(
        name=path.stem,
        machine=machine,
        device="+".join(devices),
        num_hosts=num_hosts,
        per_host=len(workers) // num_hosts,
        memory_bytes=memory,
        network_bytes_per_s=network,
        watts=None,
        cores_per_worker=_least_cores(placement),
        placement=placement,
        is_priced=machine.price_per_hour > 0,
    )


def _least_cores(placement: Placement) -> float | None:
    """The fewest cores of any worker, if those of a host share them evenly (None: some host's are unknown)."""
    sizes = Counter(placement.host_of)
    cores = [worker.cpu_cores for worker in placement.workers]
    if None in cores:
        return None
    return min(each / sizes[host] for each, host in zip(cores, placement.host_of, strict=True) if each)
