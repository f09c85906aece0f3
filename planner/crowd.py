"""Many workers of which most are alike: the busiest stands for all, so that a thousand cost no more than one."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from gnnplan.planner.network import ring_s, within_s
from gnnplan.profiles.curves import Estimate
from gnnplan.profiles.machine import Link


@dataclass(frozen=True)
class HostKind:
    """A host, or several that are alike.

    Args:
        workers: of each of the R that stand for others, how many such workers a host of this kind has.
    """

    link: Link
    workers: tuple[int, ...]


@dataclass(frozen=True)
class Crowd:
    """Whom the R workers of a program stand for, and the links between all of them.

    Rows are taken to go to all other workers in proportion to their shares of the graph.

    Args:
        alike: how many workers each stands for, itself among them.
        shares: of the graph, of one worker of each kind.
        busiest: how many times what all alike workers send, in the mean, the one sends that stands for them.
        hosts: every kind of host.
        device_link: between two devices of one host.
    """

    alike: tuple[int, ...]
    shares: tuple[float, ...]
    busiest: tuple[float, ...]
    hosts: tuple[HostKind, ...]
    device_link: Link

    @property
    def num_workers(self) -> int:
        """All workers."""
        return sum(self.alike)

    def exchange(self, sent_bytes: np.ndarray, received_bytes: np.ndarray) -> Estimate:
        """An uneven all-to-all, by links, as `Network.all_to_all` has it.

        Args:
            sent_bytes, received_bytes: float64 [R], of one worker of each kind, to and from all others.
        """
        busiest = float(np.maximum(sent_bytes, received_bytes).max())
        seconds = within_s(self.num_workers, busiest, self.device_link)
        for host in self.hosts:
            leaving = self._counted(host) * self._leaving(host)
            if leaving.any():
                crossing = max(float(leaving @ sent_bytes), float(leaving @ received_bytes))
                seconds = max(seconds, host.link.latency_s + crossing / host.link.bytes_per_s)
        return Estimate(seconds, 0.0, True)

    def all_reduce(self, num_bytes: float) -> Estimate:
        """A sum over all workers of `num_bytes` each."""
        return Estimate(ring_s(self.num_workers, num_bytes, self._links()), 0.0, True)

    def to_everyone(self, num_bytes: float) -> Estimate:
        """Everyone sends `num_bytes` to everyone else."""
        size = self.num_workers
        seconds = within_s(size, (size - 1) * num_bytes, self.device_link)
        for host in self.hosts:
            here = sum(host.workers)
            if here < size:
                crossing = here * (size - here) * num_bytes
                seconds = max(seconds, host.link.latency_s + crossing / host.link.bytes_per_s)
        return Estimate(seconds, 0.0, True)

    def _links(self) -> Sequence[Link]:
        is_one_host = any(sum(host.workers) == self.num_workers for host in self.hosts)
        return [self.device_link] if is_one_host else [host.link for host in self.hosts]

    def _counted(self, host: HostKind) -> np.ndarray:
        """float64 [R]: workers of a host, the busiest in full and all others as what they are to it."""
        count, others = np.array(host.workers), np.maximum(np.array(host.workers) - 1, 0)
        return np.minimum(count, 1) + others / np.array(self.busiest)

    def _leaving(self, host: HostKind) -> np.ndarray:
        """float64 [R]: of what a worker on the host sends, the share that leaves the host."""
        if sum(host.workers) == self.num_workers:
            return np.zeros(len(self.shares))
        own = np.array(self.shares)
        here = float(np.array(host.workers) @ own)
        return (1 - here) / np.maximum(1 - own, 1e-12)
