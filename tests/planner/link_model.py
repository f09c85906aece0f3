"""A cluster of which every second is known, and the profiles that the profiler makes of it."""

from dataclasses import dataclass
from functools import cache

import numpy as np
import pytest
import torch
import torch.distributed as dist

from gnnplan.planner.cluster import Cluster, DeviceSpec, HostSpec, resolve
from gnnplan.profiles import probes
from gnnplan.profiles.catalog import catalog_profile
from gnnplan.profiles.collectives import CollectiveTiming, counts_of
from gnnplan.profiles.grids import Grid
from gnnplan.profiles.machine import Link, MeasuredHost
from gnnplan.profiles.measure import Timing
from gnnplan.profiles.probes import Probes, Workers

KIB, MIB = 1024.0, 1024.0**2
MBIT = 125e3  # bytes a second
GRID = Grid(axes={}, collective_bytes=(4.0, 16 * KIB, 64 * KIB, 256 * KIB, 1 * MIB, 4 * MIB, 16 * MIB), budget_s=0.01)


@dataclass(frozen=True)
class LinkModel:
    """Hosts on links that carry both directions at once, each at its own rate, and workers that share nothing else.

    Args:
        workers: of every host.
        bytes_per_s: of every host's link.
        within_bytes_per_s: at which a worker sends, and receives, within its host.
        shared_bytes_per_s: of all bytes together, whoever sends them, e.g. by a core that copies them.
    """

    workers: tuple[int, ...]
    bytes_per_s: tuple[float, ...]
    within_bytes_per_s: float = 1e9
    shared_bytes_per_s: float = 1e15
    latency_s: float = 1e-4

    @property
    def names(self):
        """Of the hosts."""
        return [f"h{index}" for index in range(len(self.workers))]

    @property
    def size(self):
        """Workers in all."""
        return sum(self.workers)

    @property
    def host_of(self):
        """Of every rank."""
        return np.repeat(np.arange(len(self.workers)), self.workers)

    def seconds(self, sent_bytes):
        """What an exchange takes: the slowest of all links, workers within their hosts, and what is shared."""
        sent_bytes = np.asarray(sent_bytes, float)
        together = self.host_of[:, None] == self.host_of
        inside, leaving = np.where(together, sent_bytes, 0), np.where(together, 0, sent_bytes)
        slowest_s = max(inside.sum(0).max(), inside.sum(1).max()) / self.within_bytes_per_s
        for host, rate in enumerate(self.bytes_per_s):
            here = self.host_of == host
            slowest_s = max(slowest_s, leaving[here].sum() / rate, leaving[:, here].sum() / rate)
        return self.latency_s + max(slowest_s, sent_bytes.sum() / self.shared_bytes_per_s)

    def timing(self, pattern, num_bytes):
        """A collective as `time_collective` has it; a reduction is an even exchange there and back."""
        counts = np.array(counts_of(pattern, max(self.size, int(num_bytes) // 4), self.size))
        seconds = self.seconds(4 * counts) * (2 if pattern.name == "all_reduce" else 1)
        return CollectiveTiming(Timing(seconds, seconds / 100, 5), Timing(seconds / 10, 0.0, 5))

    @cache  # noqa: B019  there are a dozen models, and each is asked for its profiles many times
    def profiles(self):
        """Of every host, with the tables that its first worker makes of what the profiler times."""
        first_of_host = [int(np.flatnonzero(self.host_of == host)[0]) for host in self.host_of]
        members = tuple(
            MeasuredHost(name=name, num_workers=count, link=Link(bytes_per_s=rate), cpu_cores=0.5)
            for name, count, rate in zip(self.names, self.workers, self.bytes_per_s)
        )
        made = []
        for name, first in zip(self.names, sorted(set(first_of_host))):
            with pytest.MonkeyPatch.context() as patch:
                patch.setattr(probes, "time_collective", lambda pattern, num_bytes, *_: self.timing(pattern, num_bytes))
                patch.setattr(dist, "get_rank", lambda first=first: first)
                patch.setattr(dist, "get_world_size", lambda *_: self.size)
                its = Probes(GRID, torch.device("cpu"), Workers(None), (), first_of_host)
                timings = [probe() for points in (its.of_collectives(), its.of_pairs()) for probe in points]
                tables = its.collective_tables(timings)
            changes = {"name": name, "collectives": tables, "session": "s", "members": members, "host": name}
            made.append(catalog_profile("t4").model_copy(update=changes))
        return made

    def cluster(self, folder, profiles=None):
        """A cluster file's contents as `gnnplan profile --cluster` writes it, its profiles saved beside it."""
        hosts = []
        for name, count, rate, profile in zip(self.names, self.workers, self.bytes_per_s, profiles or self.profiles()):
            path = profile.save(folder / f"{name}.json")
            devices = (DeviceSpec(profile=path, count=count),)
            hosts.append(HostSpec(name=name, devices=devices, link=Link(bytes_per_s=rate), cpu_cores=0.5))
        return Cluster(hosts=tuple(hosts))

    def placement(self, folder, profiles=None):
        """Its workers."""
        return resolve(self.cluster(folder, profiles))

    def sent(self, **amounts):
        """A matrix of bytes from `w0_1=...` for worker 0 to worker 1 and as many back."""
        matrix = np.zeros((self.size, self.size))
        for key, amount in amounts.items():
            one, other = (int(part) for part in key.removeprefix("w").split("_"))
            matrix[one, other] = matrix[other, one] = amount
        return matrix

    def even(self, num_bytes):
        """All send as much in all, the same to each."""
        return (1 - np.eye(self.size)) * num_bytes / (self.size - 1)
