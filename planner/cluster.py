"""The `Cluster` contract: hosts, their devices, links and prices."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from functools import partial
from pathlib import Path
from typing import Annotated, ClassVar, Self

from pydantic import Field, PositiveFloat, model_validator

from gnnplan.planner.device_link import default_device_link
from gnnplan.profiles.catalog import catalog_profile
from gnnplan.profiles.contract import Contract, Document
from gnnplan.profiles.errors import UserError
from gnnplan.profiles.limits import MAX_WORKERS, Bytes, HostName, SomeBytes, Workers
from gnnplan.profiles.machine import Link, MachineProfile

CLUSTER_FILE = "cluster.json"  # in a folder of profiles that it names
_NETWORK = Link(bytes_per_s=1.25e9, latency_s=50e-6)  # 10 Gbit Ethernet


class DeviceSpec(Contract):
    """`count` equal devices of a host, by catalog name or by profile file.

    Args:
        as_one: profile file of one worker that has all threads of these `count` workers. A CPU can be shared out among
            workers or be left to one: with this profile the planner asks for both.
        memory_bytes: overrides what the profile says one worker may use.
    """

    catalog: str | None = None
    profile: Path | None = None
    as_one: Path | None = None
    count: Workers = 1
    memory_bytes: SomeBytes | None = None

    @model_validator(mode="after")
    def _one_origin(self) -> Self:
        if (self.catalog is None) == (self.profile is None):
            raise ValueError("give either catalog or profile, not both")
        if self.as_one and not self.profile:
            raise ValueError("as_one goes with profile; a catalog device is one worker already")
        return self


class HostSpec(Contract):
    """A machine of the cluster.

    Args:
        link: its network interface; hosts without one use the cluster's `network`.
        price_per_hour: dollars.
        cpu_cores: cores' worth of CPU time the host gets under `gnnplan emulate`, which can give 0.1 or more,
            and in all what the machine has (None: no limit).
        region_bytes: of its main memory, beside what its workers have, for halo rows that they keep together (0: none).
        pinned_bytes: of its main memory, for rows and edges that its GPUs have no room for (None: what is needed).
    """

    name: HostName
    devices: Annotated[tuple[DeviceSpec, ...], Field(min_length=1)]
    link: Link | None = None
    price_per_hour: Annotated[float, Field(ge=0)] = 0.0
    cpu_cores: PositiveFloat | None = None
    region_bytes: Bytes = 0
    pinned_bytes: Bytes | None = None
    count: Workers = 1


class Cluster(Document):
    """Where to train.

    Args:
        network: the link of every host that names none of its own (None: 10 Gbit/s Ethernet, and no limit where
            hosts are emulated).
        device_link: between two devices of one host, where their profiles hold no collective (None: PCIe 3.0 x16, or
            the slowest of the devices' own slots where that is slower).
    """

    KIND: ClassVar[str] = "cluster"

    name: str = "cluster"
    hosts: Annotated[tuple[HostSpec, ...], Field(min_length=1)]
    network: Link | None = None
    device_link: Link | None = None

    @model_validator(mode="after")
    def _hosts_are_distinct(self) -> Self:
        if (
            count := sum(host.count * sum(device.count for device in host.devices) for host in self.hosts)
        ) > MAX_WORKERS:
            raise ValueError(f"hosts: {count:,} devices in all, {MAX_WORKERS:,} at most")
        for name, times in Counter(name for name, _ in expand_hosts(self)).items():
            if times > 1:
                raise ValueError(f"two hosts are called {name!r}; give each its own name, or one host a count")
        return self

    @classmethod
    def load(cls, path: str | Path) -> Self:
        """Reads the cluster; relative profile paths are taken from the cluster file's folder."""
        cluster = super().load(path)
        base = Path(path).resolve().parent
        hosts = tuple(
            host.model_copy(update={"devices": tuple(_anchor(d, base) for d in host.devices)}) for host in cluster.hosts
        )
        return cluster.model_copy(update={"hosts": hosts})

    def link_of(self, host: HostSpec) -> Link:
        """A host's own link, or that of the network."""
        return host.link or self.network or _NETWORK


class WorkerPlace(Contract):
    """One worker of a plan: a device on a host, with the profile it is predicted by.

    Args:
        memory_bytes: of the device.
        region_bytes: of the host's memory, for the halo rows that all its workers keep together.
        pinned_bytes: of the host's memory, for what all its workers on GPUs keep there (None: what is needed).
        cpu_cores: the host's limit (None: the cluster names none).
        price_per_hour: dollars, of the whole host.
    """

    host: HostName
    host_index: int = Field(ge=0, lt=MAX_WORKERS)
    device_index: int = Field(ge=0, lt=MAX_WORKERS)
    profile: str
    link: Link
    memory_bytes: SomeBytes
    region_bytes: Bytes = 0
    pinned_bytes: Bytes | None = None
    cpu_cores: PositiveFloat | None = None
    price_per_hour: Annotated[float, Field(ge=0)] = 0.0


class Placement(Contract):
    """A cluster resolved into workers and the distinct profiles they use, by name.

    Args:
        device_link: between two devices of one host.
        is_default_link: whether no cluster file named that link.
        as_one: single workers, each of which a host may have in place of several of `workers`.
    """

    workers: Annotated[tuple[WorkerPlace, ...], Field(min_length=1, max_length=MAX_WORKERS)]
    profiles: dict[str, MachineProfile]
    device_link: Link
    is_default_link: bool = False
    as_one: Annotated[tuple[WorkerPlace, ...], Field(max_length=MAX_WORKERS)] = ()

    @property
    def host_of(self) -> tuple[int, ...]:
        """Index of each worker's host."""
        return tuple(worker.host_index for worker in self.workers)

    @property
    def sharing_hosts(self) -> tuple[int, ...]:
        """Hosts, by their index, that give memory to rows that several workers of theirs hold together."""
        giving, count = {worker.host_index for worker in self.workers if worker.region_bytes}, Counter(self.host_of)
        return tuple(host for host in sorted(giving) if count[host] > 1)

    @property
    def price_per_hour(self) -> float:
        """Dollars an hour of all hosts that have a worker."""
        return sum({worker.host_index: worker.price_per_hour for worker in self.workers}.values())

    @property
    def workers_by_host(self) -> dict[str, int]:
        """How many workers each host has, in the order of ranks."""
        return dict(Counter(worker.host for worker in self.workers))

    @property
    def threads_by_host(self) -> dict[str, int]:
        """Threads of each host's workers, as they were profiled.

        One agent starts all workers of a host, with one number for all: that of its first worker's profile.
        """
        found: dict[str, int] = {}
        for rank, worker in enumerate(self.workers):
            found.setdefault(worker.host, self.profile_of(rank).num_threads)
        return found

    def profile_of(self, worker: int) -> MachineProfile:
        """The profile of a worker by its rank."""
        return self.profiles[self.workers[worker].profile]

    def has_other_cores(self, worker: int) -> bool:
        """Whether the cluster names other cores than the worker was profiled under, which tells nothing of them."""
        own, cores = self.profile_of(worker).own_host, self.workers[worker].cpu_cores
        return own is not None and cores is not None and cores != own.cpu_cores

    @property
    def have_more_beside(self) -> tuple[bool, ...]:
        """Of each worker, whether more compute on its host's processor than when it was profiled."""
        count, profiles = Counter(self.host_of), [self.profiles[worker.profile] for worker in self.workers]
        return tuple(
            profile.device_kind == "cpu" and count[host] > profile.num_workers_beside
            for profile, host in zip(profiles, self.host_of, strict=True)
        )

    def take(self, num_workers: int) -> Placement:
        """The first `num_workers` workers, where it is one also whoever may stand for it; `UserError` where fewer."""
        if num_workers > len(self.workers):
            raise UserError(
                f"{num_workers} workers asked for, the cluster has {len(self.workers)} devices; "
                f"raise `count` of a device or lower pin.num_workers"
            )
        return self._of(self.workers[:num_workers], self.as_one if num_workers == 1 else ())

    def of(self, ranks: Iterable[int]) -> Placement:
        """These workers alone, with the profiles that they use."""
        return self._of(tuple(self.workers[rank] for rank in ranks))

    def hosts_as_one(self) -> list[Placement]:
        """Each of the single workers that a host may have in place of several."""
        return [self._of((worker,)) for worker in self.as_one]

    def _of(self, workers: tuple[WorkerPlace, ...], as_one: tuple[WorkerPlace, ...] = ()) -> Placement:
        used = {worker.profile for worker in (*workers, *as_one)}
        profiles = {name: profile for name, profile in self.profiles.items() if name in used}
        return self.model_copy(update={"workers": workers, "profiles": profiles, "as_one": as_one})


def expand_hosts(cluster: Cluster) -> list[tuple[str, HostSpec]]:
    """Every host by the name its workers carry: `name`, or `name-0`, `name-1` ... where it has a count."""
    return [
        (host.name if host.count == 1 else f"{host.name}-{replica}", host)
        for host in cluster.hosts
        for replica in range(host.count)
    ]


def resolve(cluster: Cluster) -> Placement:
    """Loads every profile and numbers the workers host by host, device by device."""
    profiles: dict[str, MachineProfile] = {}
    workers: list[WorkerPlace] = []
    as_one: list[WorkerPlace] = []
    for host_index, (name, host) in enumerate(expand_hosts(cluster)):
        index = 0
        for device in host.devices:
            place = partial(_place, cluster, name, host, host_index, device)
            key = _joined(profiles, device_profile(device))
            workers += [place(profiles[key], key, index + number) for number in range(device.count)]
            if device.as_one:
                key = _joined(profiles, MachineProfile.load(device.as_one))
                as_one.append(place(profiles[key], key, index))
            index += device.count
    return Placement(
        workers=tuple(workers),
        profiles=profiles,
        device_link=cluster.device_link or default_device_link(profiles.values()),
        is_default_link=cluster.device_link is None,
        as_one=tuple(as_one),
    )


def _joined(profiles: dict[str, MachineProfile], profile: MachineProfile) -> str:
    """Its key among `profiles`, which it joins; a thousand hosts of one device are fingerprinted once."""
    known = next((key for key, other in profiles.items() if other is profile), None)
    key = known or f"{profile.name}@{profile.fingerprint()}"
    profiles[key] = profile
    return key


def _place(
    cluster: Cluster,
    name: str,
    host: HostSpec,
    host_index: int,
    device: DeviceSpec,
    profile: MachineProfile,
    key: str,
    device_index: int,
) -> WorkerPlace:
    """A worker of a device."""
    return WorkerPlace(
        host=name,
        host_index=host_index,
        device_index=device_index,
        profile=key,
        link=cluster.link_of(host),
        memory_bytes=device.memory_bytes or profile.memory_bytes,
        region_bytes=host.region_bytes,
        pinned_bytes=host.pinned_bytes,
        cpu_cores=host.cpu_cores,
        price_per_hour=host.price_per_hour,
    )


def _anchor(device: DeviceSpec, base: Path) -> DeviceSpec:
    files = {"profile": device.profile, "as_one": device.as_one}  # an absolute path stays what it is
    return device.model_copy(update={name: base / path for name, path in files.items() if path})


def device_profile(device: DeviceSpec) -> MachineProfile:
    """The profile that a device names, loaded."""
    if device.catalog is not None:
        return catalog_profile(device.catalog)
    assert device.profile is not None
    return MachineProfile.load(device.profile)


def with_profile(device: DeviceSpec, name: str) -> DeviceSpec:
    """A device by the profile of that name beside its cluster file; what the user says of its memory stands."""
    return device.model_copy(update={"catalog": None, "profile": Path(profile_file(name)), "as_one": None})


def profile_file(name: str) -> str:
    """The file of a profile in a folder with `cluster.json`; `UserError` where its name cannot be a file's there."""
    file = f"{name}.json"
    if Path(file).name != file or file == CLUSTER_FILE:
        raise UserError(f"profile {name!r}: it cannot be in a file of that name beside {CLUSTER_FILE}; rename its host")
    return file
