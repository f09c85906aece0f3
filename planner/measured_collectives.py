"""Seconds of collectives among workers that were profiled side by side, from the tables measured there.

Rows of an all-to-all pass *lanes*: between two hosts, through a host's port (all that it sends to others, or receives),
and within a host. Lanes are profiled one at a time. An exchange takes at least as long as its slowest lane. It takes
longer where other lanes are busy meanwhile and share something with it, such as a core or a switch. How much longer was
measured once: by an exchange in which all workers send equally much.

Where only some of the hosts that were profiled take part, their exchanges pass lanes that were measured all the same. A
sum over them was not measured; it is computed from the one over all.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import combinations

import numpy as np

from gnnplan.planner.cluster import Placement
from gnnplan.planner.costs import ZERO
from gnnplan.planner.session import session_places
from gnnplan.profiles.curves import Curve, Estimate, collective_curve, collective_processor

_ALIKE = 1.01  # of two tables of a port that say as much as the same, the one that was measured there counts


@dataclass(frozen=True)
class _Lanes:
    """What an exchange takes of every lane that it passes.

    Args:
        alone: of each what it would take if nothing else were on the way; not empty.
        beside_s: seconds of what is on the way beside the slowest.
    """

    alone: tuple[Estimate, ...]
    beside_s: float

    @property
    def slowest(self) -> Estimate:
        return max(self.alone, key=lambda lane: lane.seconds)

    @property
    def is_guess(self) -> bool:
        return any(lane.unprofiled for lane in self.alone)


@dataclass(frozen=True)
class MeasuredCollectives:
    """The collectives of a placement whose profiles hold them.

    Args:
        places: of every host by its index, its place among the profiled ones.
        num_profiled: workers that were profiled side by side, these among them.
    """

    placement: Placement
    places: Mapping[int, int]
    num_profiled: int

    @staticmethod
    def of(placement: Placement) -> MeasuredCollectives | None:
        """None where not all profiles hold collectives among these workers, or these and more."""
        places = session_places(placement)
        if places is None:
            return None
        first = placement.profile_of(0)
        num_profiled = sum(member.num_workers for member in first.members) or len(placement.workers)
        if len(places) == 1 and not first.members:
            num_profiled = max(num_profiled, first.num_workers_beside)
        made = MeasuredCollectives(placement, places, num_profiled)
        needed = [(host, name) for host in places for name in ("all_reduce", "all_to_all")]
        return made if all(made._curve(host, name) for host, name in needed) else None

    def all_reduce(self, num_bytes: float) -> Estimate:
        """A sum over all workers of `num_bytes` each; a guess where more were profiled.

        A ring of W workers takes 2 (W - 1) steps of `num_bytes` / W each. So a ring of fewer is looked up where a step
        of all has as many bytes, and takes fewer of them. A step waits for the slowest of its links.
        """
        if self.num_workers == self.num_profiled:
            return self._among_all("all_reduce", num_bytes)
        step_bytes = num_bytes / self.num_workers
        of_all = self._among_all("all_reduce", step_bytes * self.num_profiled)
        share = (self.num_workers - 1) / (self.num_profiled - 1) * self._pace(step_bytes)
        return replace(of_all.times(share), spread_s=of_all.spread_s * share, unprofiled=True)

    def processor(self, rank: int, collective: str, num_bytes: float) -> Estimate:
        """Processor seconds of a worker in a collective in which it handles `num_bytes`.

        It has a message for each of the others, which cost what they did among all that were profiled.
        """
        num_others, num_profiled = self.num_workers - 1, self.num_profiled - 1
        profile = self.placement.profile_of(rank)
        if num_others == num_profiled:
            return collective_processor(profile, collective, self.num_profiled, num_bytes)
        messages = self.num_workers / self.num_profiled if collective == "all_reduce" else num_others / num_profiled
        whole = collective_processor(profile, collective, self.num_profiled, num_bytes / messages)
        return whole.times(num_others / num_profiled)

    def all_to_all(self, sent_bytes: np.ndarray) -> Estimate:
        """An uneven all-to-all; `sent_bytes[p, q]` go from worker p to q.

        Exactly what was measured where all send each other the same.
        """
        of_worker = np.maximum(sent_bytes.sum(0), sent_bytes.sum(1))
        lanes = self._lanes(sent_bytes)
        if lanes is None:
            return self._among_all("all_to_all", float(of_worker.max()))
        slowest = lanes.slowest
        if slowest.seconds == 0:
            return slowest
        factor, is_guess = self._contention(lanes, float(of_worker.mean()))
        seconds = slowest.seconds * factor
        return Estimate(seconds, slowest.spread_s * factor, lanes.is_guess or is_guess, (("all_to_all", seconds),))

    def pair_s(self, first: int, second: int, num_bytes: float) -> float:
        """Seconds in which two workers send each other `num_bytes`, if nobody else sends anything."""
        hosts = self.placement.host_of[first], self.placement.host_of[second]
        if self.num_profiled == 2:
            return self._among_all("all_to_all", num_bytes).seconds
        if self._has_pairs:
            return self._pair(*hosts, num_bytes).seconds
        return max(self._old_port_s(host, num_bytes) for host in hosts)

    def port_s(self, rank: int, num_bytes: float, crossing_bytes: float, staying_bytes: float) -> float:
        """Seconds in which a worker sends and receives `num_bytes` each, whatever other hosts do.

        Args:
            crossing_bytes: what passes its host's port meanwhile.
            staying_bytes: of its rows, those to and from workers of its own host.
        """
        host = self.placement.host_of[rank]
        if self.num_profiled == 2:
            return self._among_all("all_to_all", num_bytes).seconds
        if not self._has_pairs:
            return self._old_port_s(host, num_bytes)
        return max(self._port(host, crossing_bytes).seconds, self._pair(host, host, staying_bytes).seconds)

    @property
    def num_workers(self) -> int:
        """Of the placement."""
        return len(self.placement.workers)

    @cached_property
    def _host_of(self) -> np.ndarray:
        return np.array(self.placement.host_of)

    @cached_property
    def _hosts(self) -> list[int]:
        return sorted(self.places)

    @cached_property
    def _is_on(self) -> np.ndarray:
        """bool [H, W]."""
        return np.array(self._hosts)[:, None] == self._host_of

    @cached_property
    def _curves(self) -> dict[tuple[int, str, int | None], Curve | None]:
        return {}

    @cached_property
    def _sizes(self) -> dict[int, int]:
        """By place, the workers of every host that was profiled."""
        members = self.placement.profile_of(0).members
        if members:
            return {place: member.num_workers for place, member in enumerate(members)}
        if len(self.places) == 1:
            return {self.places[self._hosts[0]]: self.num_profiled}
        return {self.places[host]: int(here.sum()) for host, here in zip(self._hosts, self._is_on)}

    def _curve(self, host: int, collective: str, place: int | None = None) -> Curve | None:
        """That of a host's profile, if it has one; of a pair with the host at a place."""
        key = host, collective, place
        if key not in self._curves:
            profile = self.placement.profile_of(self.placement.host_of.index(host))
            self._curves[key] = collective_curve(profile, collective, self.num_profiled, place)
        return self._curves[key]

    def _among_all(self, collective: str, num_bytes: float) -> Estimate:
        return self._seconds(self._hosts[0], collective, num_bytes)

    def _seconds(self, host: int, collective: str, num_bytes: float, place: int | None = None) -> Estimate:
        curve = self._curve(host, collective, place)
        assert curve is not None, (host, collective, place)
        found = curve.seconds((num_bytes,))
        return replace(found, parts=((collective, found.seconds),))

    @cached_property
    def _has_pairs(self) -> bool:
        """Whether every two hosts, and every host with several workers, were profiled as pairs."""
        several = [host for host, here in zip(self._hosts, self._is_on) if here.sum() > 1]
        pairs = [*combinations(self._hosts, 2), *((host, host) for host in several)]
        return all(self._curve(host, "all_to_all_pair", self.places[peer]) for host, peer in pairs)

    def _pair(self, host: int, peer: int, num_bytes: float) -> Estimate:
        """A worker of each of two hosts, or two workers of one, send each other `num_bytes`, and nobody else does."""
        return self._pair_at(min(host, peer), self.places[max(host, peer)], num_bytes)

    def _pair_at(self, host: int, place: int, num_bytes: float) -> Estimate:
        """The same with the host at a place, which need not take part."""
        return self._seconds(host, "all_to_all_pair", num_bytes, place) if num_bytes > 0 else ZERO

    def _port(self, host: int, num_bytes: float) -> Estimate:
        """`num_bytes` leave a host and as many come: the fastest that was seen, with one other host or with all.

        A table with one other host holds what the slower of the two takes, and one with all at once what the slowest
        takes of its share; neither is faster than the port.
        """
        if num_bytes <= 0:
            return ZERO
        seen = [self._pair(host, other, num_bytes) for other in self._hosts if other != host]
        if self._curve(host, "all_to_all_port"):
            num_others = self.num_profiled - int((self._host_of == host).sum())
            in_all = num_bytes * (self.num_profiled - 1) / num_others  # a part of which stays on the host
            seen.append(self._seconds(host, "all_to_all_port", in_all))
        fastest_s = min(estimate.seconds for estimate in seen)
        alike = [estimate for estimate in seen if estimate.seconds <= _ALIKE * fastest_s]
        return min(alike, key=lambda estimate: estimate.unprofiled)

    def _lanes(self, sent_bytes: np.ndarray) -> _Lanes | None:
        """None where the profiles hold no lanes at all, or no more than two workers, which are one lane."""
        if self.num_profiled == 2:
            return None
        if not self._has_pairs:
            return self._old_lanes(sent_bytes)
        between = self._is_on.astype(float) @ sent_bytes @ self._is_on.T
        np.fill_diagonal(between, 0)
        busiest = np.maximum(sent_bytes, sent_bytes.T)
        links = [
            self._pair(self._hosts[one], self._hosts[other], float(max(between[one, other], between[other, one])))
            for one, other in combinations(range(len(self._hosts)), 2)
        ]
        host_of = self.placement.host_of
        within = [
            self._pair(host_of[one], host_of[one], float(busiest[one, other]))
            for one, other in combinations(range(self.num_workers), 2)
            if host_of[one] == host_of[other]
        ]
        crossing = np.maximum(between.sum(0), between.sum(1))
        ports = [self._port(host, float(num_bytes)) for host, num_bytes in zip(self._hosts, crossing)]
        inside = np.where(self._host_of[:, None] == self._host_of, sent_bytes, 0)
        staying = np.maximum(inside.sum(0), inside.sum(1))
        workers = [self._pair(host, host, float(b)) for host, b in zip(host_of, staying)]
        lanes = _Lanes((*links, *within, *ports, *workers), 0.0)
        traffic_s = sum(lane.seconds for lane in (*links, *within))  # every row once
        return replace(lanes, beside_s=max(traffic_s - lanes.slowest.seconds, 0.0))

    def _old_lanes(self, sent_bytes: np.ndarray) -> _Lanes | None:
        """Of profiles without pairs: the ports of all workers, and of hosts with several for what leaves them."""
        if not all(self._curve(host, "all_to_all_port") for host in self._hosts):
            return None
        of_worker = np.maximum(sent_bytes.sum(0), sent_bytes.sum(1))
        ports = [
            self._seconds(host, "all_to_all_port", float(num_bytes))
            for host, num_bytes in zip(self.placement.host_of, of_worker)
        ]
        busy_s = sum(port.seconds for port in ports)
        for host, here in zip(self._hosts, self._is_on):
            if 1 < here.sum() < self.num_profiled:
                crossing = max(sent_bytes[here][:, ~here].sum(), sent_bytes[~here][:, here].sum())
                ports.append(self._seconds(host, "all_to_all_port", float(crossing)))
        return _Lanes(tuple(ports), busy_s)

    def _old_port_s(self, host: int, num_bytes: float) -> float:
        name = "all_to_all_port" if self._curve(host, "all_to_all_port") else "all_to_all"
        return self._seconds(host, name, num_bytes).seconds

    def _contention(self, lanes: _Lanes, num_bytes: float) -> tuple[float, bool]:
        """How many times as long as its slowest lane an exchange takes, and whether that is a guess.

        That of an even exchange among all that were profiled, in which every worker sends `num_bytes`, where as much is
        on the way beside the slowest lane; less where less is. Of more than was timed it is that of the most: two lines
        that go on differ by all their noise.
        """
        curve = self._curve(self._hosts[0], "all_to_all")
        assert curve is not None
        timed_bytes = min(num_bytes, curve.axes[0][-1])
        even = self._even_lanes(timed_bytes / (self.num_profiled - 1))
        together = self._among_all("all_to_all", timed_bytes)
        is_guess = together.unprofiled or even.is_guess or timed_bytes < num_bytes
        even_s = even.slowest.seconds
        if even_s == 0:
            return 1.0, is_guess
        whole, now = even.beside_s / even_s, lanes.beside_s / lanes.slowest.seconds
        as_busy = min(now / whole, 1.0) if whole > 0 else 1.0
        return 1 + as_busy * (together.seconds / even_s - 1), is_guess

    def _even_lanes(self, share_bytes: float) -> _Lanes:
        """Those of an exchange in which everyone that was profiled sends `share_bytes` to everyone else.

        Of hosts that do not take part only the lanes to those that do are known; the others' are taken to be as busy.
        """
        if self.num_workers == self.num_profiled:
            lanes = self._lanes(share_bytes * (1 - np.eye(self.num_workers)))
            assert lanes is not None
            return lanes
        if not self._has_pairs:
            ports = [self._seconds(h, "all_to_all_port", share_bytes * (self.num_profiled - 1)) for h in self._hosts]
            num_ports = self.num_profiled if len(self._sizes) == 1 else len(self._sizes)  # a worker's, or a host's
            return _Lanes(tuple(ports), sum(port.seconds for port in ports) * num_ports / len(ports))
        if len(self._sizes) == 1:
            return self._even_on_one_host(share_bytes)
        sizes, own = self._sizes, [self.places[host] for host in self._hosts]
        links = [
            self._pair_at(host, place, share_bytes * sizes[self.places[host]] * sizes[place])
            for host, place in self._links
        ]
        ports = [
            self._port(host, share_bytes * sizes[place] * (self.num_profiled - sizes[place]))
            for host, place in zip(self._hosts, own)
        ]
        lanes = _Lanes((*links, *ports), 0.0)
        num_links = len(sizes) * (len(sizes) - 1) // 2
        traffic_s = sum(link.seconds for link in links) * num_links / len(links)
        return replace(lanes, beside_s=max(traffic_s - lanes.slowest.seconds, 0.0))

    def _even_on_one_host(self, share_bytes: float) -> _Lanes:
        host, num_others = self._hosts[0], self.num_profiled - 1
        link, worker = self._pair(host, host, share_bytes), self._pair(host, host, share_bytes * num_others)
        lanes = _Lanes((link, worker), 0.0)
        traffic_s = link.seconds * self.num_profiled * num_others / 2
        return replace(lanes, beside_s=max(traffic_s - lanes.slowest.seconds, 0.0))

    @cached_property
    def _links(self) -> list[tuple[int, int]]:
        """A host that takes part and the place of another that was profiled, every two once."""
        own = [self.places[host] for host in self._hosts]
        return [
            (host, place)
            for host, here in zip(self._hosts, own)
            for place in self._sizes
            if place not in own or here < place
        ]

    def _pace(self, num_bytes: float) -> float:
        """Of the slowest link between hosts that take part, its seconds over those of the slowest that was profiled."""
        own = {self.places[host] for host in self._hosts}
        inner = [link for link in self._links if link[1] in own]
        if not inner or not self._has_pairs or num_bytes <= 0:
            return 1.0
        return self._slowest_link_s(num_bytes, inner) / self._slowest_link_s(num_bytes, self._links)

    def _slowest_link_s(self, num_bytes: float, links: Sequence[tuple[int, int]]) -> float:
        return max(self._pair_at(*link, num_bytes).seconds for link in links)
