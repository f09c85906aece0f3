"""Seconds of collectives: from measured tables where the workers were profiled together, else from links."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from planner.cluster import Placement
from planner.costs import FLOAT_BYTES, ZERO
from profiles.curves import Estimate, collective_processor, collective_seconds
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
        """An uneven all-to-all; `sent_bytes[p, q]` go from worker p to q.

        The slowest of every worker's own port with its own bytes and every host's port with what
        crosses it; slower still where ports that are busy together share something, by as much as
        an even exchange was slower than its slowest port alone.
        """
        if not self._was_measured:
            return Estimate(self._all_to_all_by_links(sent_bytes), 0.0, True)
        of_worker = np.maximum(sent_bytes.sum(0), sent_bytes.sum(1))
        ports = [self._lookup(rank, "all_to_all_port", b) for rank, b in self._port_bytes(sent_bytes, of_worker)]
        found = [port for port in ports if port]
        if len(found) < len(ports):  # a profile without ports: as if all had the busiest worker's bytes
            everyone = self._lookup(0, "all_to_all", float(of_worker.max()))
            assert everyone is not None
            return everyone
        slowest = max(found, key=lambda port: port.seconds)
        if slowest.seconds == 0:
            return slowest
        busy = sum(port.seconds for port in found[: self.num_workers]) / self.num_workers / slowest.seconds
        contention, is_guess = self._contention(float(of_worker.mean()))
        factor = 1 + busy * (contention - 1)
        seconds = slowest.seconds * factor
        unprofiled = is_guess or any(port.unprofiled for port in found)
        return Estimate(seconds, slowest.spread_s * factor, unprofiled, (("all_to_all", seconds),))

    def ports_s(self, sent_bytes: np.ndarray) -> np.ndarray:
        """Seconds [W] in which every worker's own port moves its rows; `sent_bytes[p, q]` go from worker p to q.

        Rows that stay on a host do not pass its link; whoever has rows that do shares it with the host's other workers.
        """
        together = self._host_of[:, None] == self._host_of
        leaving = np.where(together, 0, sent_bytes)
        out, into = leaving.sum(1), leaving.sum(0)
        crossing = np.where(np.maximum(out, into) > 0, np.maximum(together @ out, together @ into), 0)
        moved = np.maximum(sent_bytes.sum(0), sent_bytes.sum(1))
        return np.array([self.port_s(w, float(moved[w]), float(crossing[w])) for w in range(self.num_workers)])

    def port_s(self, rank: int, num_bytes: float, crossing_bytes: float | None = None) -> float:
        """Seconds in which a worker's own port sends and receives `num_bytes` each, whatever other hosts do.

        Args:
            crossing_bytes: what passes its host's link meanwhile (None: all of its rows, and nobody else's).
        """
        if num_bytes <= 0 or self.num_workers == 1:
            return 0.0
        if self._was_measured:
            port = self._lookup(rank, "all_to_all_port", num_bytes) or self._lookup(rank, "all_to_all", num_bytes)
            assert port is not None
            return port.seconds
        inner, outer = self.placement.device_link, self.placement.workers[rank].link
        seconds = inner.latency_s + num_bytes / inner.bytes_per_s
        crossing_bytes = num_bytes if crossing_bytes is None else crossing_bytes
        if len(set(self._host_of)) == 1 or crossing_bytes <= 0:
            return seconds
        return max(seconds, outer.latency_s + crossing_bytes / outer.bytes_per_s)

    def all_to_all_processor(self, sent_bytes: np.ndarray) -> list[Estimate]:
        """Processor seconds of each worker; sending and receiving are taken to cost the same."""
        handled = (sent_bytes.sum(0) + sent_bytes.sum(1)) / 2
        return [self._processor(rank, "all_to_all", float(num_bytes)) for rank, num_bytes in enumerate(handled)]

    def _processor(self, rank: int, collective: str, num_bytes: float) -> Estimate:
        if not self._was_measured:
            return ZERO
        return collective_processor(self.placement.profile_of(rank), collective, self.num_workers, num_bytes)

    def _contention(self, num_bytes: float) -> tuple[float, bool]:
        """Seconds of an even exchange over those of its slowest port alone: at least 1, at most the workers.

        And whether that is a guess, from bytes outside what was measured.
        """
        everyone = self._lookup(0, "all_to_all", num_bytes)
        alone = [self._lookup(rank, "all_to_all_port", num_bytes) for rank in range(self.num_workers)]
        is_guess = any(estimate.unprofiled for estimate in (everyone, *alone) if estimate)
        slowest_s = max(port.seconds for port in alone if port)
        if everyone is None or slowest_s == 0:
            return 1.0, is_guess
        return min(max(everyone.seconds / slowest_s, 1.0), float(self.num_workers)), is_guess

    def _port_bytes(self, sent_bytes: np.ndarray, of_worker: np.ndarray) -> list[tuple[int, float]]:
        """(rank whose port it is, bytes) of every worker, and of every host with several of the workers."""
        ports = [(rank, float(num_bytes)) for rank, num_bytes in enumerate(of_worker)]
        for host in set(self._host_of):
            here = self._host_of == host
            if 1 < here.sum() < self.num_workers:
                crossing = max(sent_bytes[here][:, ~here].sum(), sent_bytes[~here][:, here].sum())
                ports.append((int(np.flatnonzero(here)[0]), float(crossing)))
        return ports

    def all_reduce(self, num_bytes: float) -> Estimate:
        """A sum over all workers of `num_bytes` each."""
        if self._was_measured:
            measured = self._lookup(0, "all_reduce", num_bytes)
            assert measured is not None
            return measured
        # Ring: each worker sends and receives 2 (W - 1) / W of the buffer in 2 (W - 1) steps.
        size = self.num_workers
        slowest = min(self._links(), key=lambda link: link.bytes_per_s)
        latency_s = max(link.latency_s for link in self._links())
        seconds = 2 * (size - 1) * (num_bytes / size / slowest.bytes_per_s + latency_s)
        return Estimate(seconds, 0.0, True)

    def all_reduce_processor(self, num_bytes: float) -> list[Estimate]:
        """Processor seconds of each worker."""
        return [self._processor(rank, "all_reduce", num_bytes) for rank in range(self.num_workers)]

    def meet(self) -> Estimate:
        """The workers of one host waiting for each other, from the last one's coming on.

        As long as a sum of one float where that was measured among workers of one host, else two messages over the
        link between its devices.
        """
        if self._was_measured and len(set(self._host_of)) == 1:
            return replace(self.all_reduce(FLOAT_BYTES), parts=())
        return Estimate(2 * self.placement.device_link.latency_s, 0.0, True)

    def _links(self) -> list[Link]:
        if len(set(self._host_of)) == 1:
            return [self.placement.device_link]
        return [worker.link for worker in self.placement.workers]

    def _lookup(self, rank: int, collective: str, num_bytes: float) -> Estimate | None:
        found = collective_seconds(self.placement.profile_of(rank), collective, self.num_workers, num_bytes)
        return found and replace(found, parts=((collective, found.seconds),))

    @cached_property
    def _was_measured(self) -> bool:
        """Whether the profiles hold collectives among exactly these workers."""
        used = [self.placement.profiles[worker.profile] for worker in self.placement.workers]
        one_host = len(set(self._host_of)) == 1 and all(profile == used[0] for profile in used)
        side_by_side = bool(used[0].session) and all(profile.session == used[0].session for profile in used)
        names = {t.collective for t in used[0].collectives if t.num_workers == self.num_workers}
        return (one_host or side_by_side) and {"all_reduce", "all_to_all"} <= names

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
