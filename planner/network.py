"""Seconds of collectives: from measured tables where the workers were profiled together, else from links."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from planner.cluster import Placement
from profiles.curves import Estimate, collective_seconds
from profiles.machine import Link


@dataclass(frozen=True)
class Network:
    """The collectives of a placement."""

    placement: Placement

    @property
    def num_workers(self) -> int:
        """Members of every collective."""
        return len(self.placement.workers)

    @cached_property
    def _host_of(self) -> np.ndarray:
        return np.array([worker.host_index for worker in self.placement.workers])

    def all_to_all(self, sent_bytes: np.ndarray) -> Estimate:
        """An uneven all-to-all; `sent_bytes[p, q]` go from worker p to q."""
        busiest = float(max(sent_bytes.sum(0).max(), sent_bytes.sum(1).max()))
        measured = self._measured("all_to_all", busiest)
        return measured or Estimate(self._all_to_all_by_links(sent_bytes), 0.0, True)

    def all_reduce(self, num_bytes: float) -> Estimate:
        """A sum over all workers of `num_bytes` each."""
        measured = self._measured("all_reduce", num_bytes)
        if measured:
            return measured
        # Ring: each worker sends and receives 2 (W - 1) / W of the buffer in 2 (W - 1) steps.
        size = self.num_workers
        slowest = min(self._links(), key=lambda link: link.bytes_per_s)
        latency_s = max(link.latency_s for link in self._links())
        seconds = 2 * (size - 1) * (num_bytes / size / slowest.bytes_per_s + latency_s)
        return Estimate(seconds, 0.0, True)

    def _links(self) -> list[Link]:
        if len(set(self._host_of)) == 1:
            return [self.placement.device_link]
        return [worker.link for worker in self.placement.workers]

    def _measured(self, collective: str, num_bytes: float) -> Estimate | None:
        used = [self.placement.profiles[worker.profile] for worker in self.placement.workers]
        one_host = len(set(self._host_of)) == 1 and all(profile == used[0] for profile in used)
        side_by_side = bool(used[0].session) and all(profile.session == used[0].session for profile in used)
        if not one_host and not side_by_side:
            return None
        return collective_seconds(self.placement.profile_of(0), collective, self.num_workers, num_bytes)

    def _all_to_all_by_links(self, sent_bytes: np.ndarray) -> float:
        """The slowest of: each device's own traffic, and each host's traffic over its one link."""
        inner = self.placement.device_link
        per_device = np.maximum(sent_bytes.sum(0), sent_bytes.sum(1)).max()
        seconds = inner.latency_s * (self.num_workers - 1) + float(per_device) / inner.bytes_per_s
        for host in set(self._host_of):
            here = self._host_of == host
            if here.all():
                continue
            link = self.placement.workers[int(np.flatnonzero(here)[0])].link
            out, into = sent_bytes[here][:, ~here].sum(), sent_bytes[~here][:, here].sum()
            seconds = max(seconds, link.latency_s + float(max(out, into)) / link.bytes_per_s)
        return seconds
