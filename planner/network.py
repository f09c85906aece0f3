"""Seconds of collectives: from measured tables where the workers were profiled together, else from links."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from gnnplan.planner.cluster import Placement
from gnnplan.planner.costs import FLOAT_BYTES, ZERO
from gnnplan.planner.measured_collectives import MeasuredCollectives
from gnnplan.profiles.curves import Estimate
from gnnplan.profiles.machine import Link


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
        return np.array(self.placement.host_of)

    @cached_property
    def _measured(self) -> MeasuredCollectives | None:
        return MeasuredCollectives.of(self.placement)

    @property
    def _is_one_host(self) -> bool:
        return len(set(self.placement.host_of)) == 1

    def all_to_all(self, sent_bytes: np.ndarray) -> Estimate:
        """An uneven all-to-all; `sent_bytes[p, q]` go from worker p to q."""
        if self._measured:
            return self._measured.all_to_all(sent_bytes)
        return Estimate(self._all_to_all_by_links(sent_bytes), 0.0, True)

    def ports_s(self, sent_bytes: np.ndarray) -> np.ndarray:
        """Seconds [W] in which every worker's own port moves its rows; `sent_bytes[p, q]` go from worker p to q.

        Rows that stay on a host do not pass its link; whoever has rows that do shares it with the host's other workers.
        """
        together = self._host_of[:, None] == self._host_of
        leaving, inside = np.where(together, 0, sent_bytes), np.where(together, sent_bytes, 0)
        out, into = leaving.sum(1), leaving.sum(0)
        crossing = np.where(np.maximum(out, into) > 0, np.maximum(together @ out, together @ into), 0)
        moved, staying = (np.maximum(rows.sum(0), rows.sum(1)) for rows in (sent_bytes, inside))
        return np.array(
            [self.port_s(w, float(moved[w]), float(crossing[w]), float(staying[w])) for w in range(self.num_workers)]
        )

    def port_s(
        self, rank: int, num_bytes: float, crossing_bytes: float | None = None, staying_bytes: float = 0.0
    ) -> float:
        """Seconds in which a worker's own port sends and receives `num_bytes` each, whatever other hosts do.

        Args:
            crossing_bytes: what passes its host's link meanwhile (None: all of its rows, and nobody else's).
            staying_bytes: of its rows, those to and from workers of its own host; where there is no other host, all.
        """
        if num_bytes <= 0 or self.num_workers == 1:
            return 0.0
        if self._is_one_host:
            crossing_bytes, staying_bytes = 0.0, num_bytes
        elif crossing_bytes is None:
            crossing_bytes = num_bytes
        if self._measured:
            return self._measured.port_s(rank, num_bytes, crossing_bytes, staying_bytes)
        inner_s = _seconds(self.placement.device_link, num_bytes)
        if crossing_bytes <= 0:
            return inner_s
        return max(inner_s, _seconds(self.placement.workers[rank].link, crossing_bytes))

    def pair_s(self, first: int, second: int, num_bytes: float) -> float:
        """Seconds in which two workers send each other `num_bytes`, if nobody else sends anything."""
        if num_bytes <= 0 or first == second:
            return 0.0
        if self._measured:
            return self._measured.pair_s(first, second, num_bytes)
        pair = [self.placement.workers[rank] for rank in (first, second)]
        links = [self.placement.device_link]
        if pair[0].host_index != pair[1].host_index:
            links += [worker.link for worker in pair]
        return max(_seconds(link, num_bytes) for link in links)

    def all_to_all_processor(self, sent_bytes: np.ndarray) -> list[Estimate]:
        """Processor seconds of each worker; sending and receiving are taken to cost the same."""
        handled = (sent_bytes.sum(0) + sent_bytes.sum(1)) / 2
        return [self._processor(rank, "all_to_all", float(num_bytes)) for rank, num_bytes in enumerate(handled)]

    def _processor(self, rank: int, collective: str, num_bytes: float) -> Estimate:
        if not self._measured:
            return ZERO
        return self._measured.processor(rank, collective, num_bytes)

    def all_reduce(self, num_bytes: float) -> Estimate:
        """A sum over all workers of `num_bytes` each."""
        if self._measured:
            return self._measured.all_reduce(num_bytes)
        return Estimate(ring_s(self.num_workers, num_bytes, self._links()), 0.0, True)

    def least_sum_s(self, num_bytes: float) -> float:
        """No sum over all workers of `num_bytes` each takes less: neither a ring nor one where everyone sends all."""
        return min(self.all_reduce(num_bytes).seconds, self.all_to_all(self.to_everyone(num_bytes)).seconds)

    def to_everyone(self, num_bytes: float) -> np.ndarray:
        """float64 [W, W]: every worker sends `num_bytes` to each of the others."""
        return num_bytes * (1 - np.eye(self.num_workers))

    def all_reduce_processor(self, num_bytes: float) -> list[Estimate]:
        """Processor seconds of each worker."""
        return [self._processor(rank, "all_reduce", num_bytes) for rank in range(self.num_workers)]

    def meet(self) -> Estimate:
        """The workers of one host waiting for each other, from the last one's coming on.

        As long as a sum of one float where that was measured among workers of one host, else two messages over the
        link between its devices.
        """
        if self._measured and self._is_one_host:
            return replace(self.all_reduce(FLOAT_BYTES), parts=())
        return Estimate(2 * self.placement.device_link.latency_s, 0.0, True)

    def _links(self) -> list[Link]:
        if self._is_one_host:
            return [self.placement.device_link]
        return [worker.link for worker in self.placement.workers]

    def _all_to_all_by_links(self, sent_bytes: np.ndarray) -> float:
        """The slowest of: each device's own traffic, and each host's traffic over its one link."""
        per_device = np.maximum(sent_bytes.sum(0), sent_bytes.sum(1)).max()
        seconds = within_s(self.num_workers, float(per_device), self.placement.device_link)
        for host in set(self._host_of):
            here = self._host_of == host
            if here.all():
                continue
            link = self.placement.workers[int(np.flatnonzero(here)[0])].link
            out, into = sent_bytes[here][:, ~here].sum(), sent_bytes[~here][:, here].sum()
            seconds = max(seconds, _seconds(link, float(max(out, into))))
        return seconds


def ring_s(num_workers: int, num_bytes: float, links: Iterable[Link]) -> float:
    """A ring's sum: each worker sends and receives 2 (W - 1) / W of the buffer in 2 (W - 1) steps."""
    links = tuple(links)
    slowest, latency_s = min(link.bytes_per_s for link in links), max(link.latency_s for link in links)
    return 2 * (num_workers - 1) * (num_bytes / num_workers / slowest + latency_s)


def within_s(num_workers: int, num_bytes: float, device_link: Link) -> float:
    """Seconds in which a device that sends and receives `num_bytes` each passes its own link, peer by peer."""
    return device_link.latency_s * (num_workers - 1) + num_bytes / device_link.bytes_per_s


def _seconds(link: Link, num_bytes: float) -> float:
    return link.latency_s + num_bytes / link.bytes_per_s
