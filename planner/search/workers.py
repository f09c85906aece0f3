"""Which workers may take part: subsets of those at hand, equal ones once."""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import accumulate, product

from gnnplan.planner.cluster import Placement

_MOST_SUBSETS = 64  # of those that differ: more are not all looked at, only those of the fastest workers
_NEARLY = 1.03  # times as much memory: hosts of one kind differ by less


@dataclass(frozen=True)
class Subsets:
    """Ranks that could train together.

    Args:
        ranks: of each; the whole comes first, single workers last.
        are_all: none is left out, but such as are like another.
    """

    ranks: tuple[tuple[int, ...], ...]
    are_all: bool = True


def subsets(placement: Placement, rates_s: Sequence[float], *, by_price: bool = False) -> Subsets:
    """Ranks that could train together, no two subsets alike.

    Workers are alike that are of one profile, on hosts with equal links, memory and price. Where every host was
    profiled by itself, those are that have devices of one name: as many slower ones are no better. Of devices that are
    alike on one host the first ones are taken, and of hosts that are alike the fastest ones, then the first.

    Args:
        rates_s: seconds in which each worker alone would work through a whole epoch.
        by_price: whether, where they are too many, those of the workers that cost least for their speed are there too.
    """
    kinds = [_kind(placement, rank) for rank in range(len(rates_s))]
    groups = _groups(placement, rates_s, kinds)
    are_all = _most_distinct(placement, kinds, groups) <= _MOST_SUBSETS
    found = _counted(groups) if are_all else _of_fastest(placement, groups, rates_s)
    if by_price and not are_all:
        found = [*found, *_of_fastest(placement, groups, _epoch_prices(placement, rates_s))]
    distinct: dict[frozenset, tuple[int, ...]] = {}
    for ranks in sorted(found, key=lambda ranks: (-len(ranks), sum(rates_s[rank] for rank in ranks), ranks)):
        distinct.setdefault(_shape(placement, kinds, ranks), ranks)
    return Subsets(tuple(distinct.values()), are_all)


def _most_distinct(placement: Placement, kinds: Sequence[tuple], groups: Sequence[Sequence[int]]) -> int:
    """No more subsets differ: of n hosts that are alike, whose workers may take part in k ways, C(n + k - 1, n).

    A few may not, which have as many workers on hosts of other sizes.
    """
    options: dict[int, list[tuple]] = defaultdict(list)
    num_ways, host_of = 1, placement.host_of
    sizes = Counter(host_of)
    for ranks in groups:
        hosts = {host_of[rank] for rank in ranks}
        if len(hosts) > 1 or sizes[host_of[ranks[0]]] == 1:  # hosts of one worker each
            num_ways *= len(ranks) + 1
        else:
            options[hosts.pop()].append((kinds[ranks[0]], len(ranks)))
    for of_host, num_hosts in Counter(frozenset(each) for each in options.values()).items():
        num_of_one = math.prod(size + 1 for _, size in of_host)
        num_ways *= math.comb(num_hosts + num_of_one - 1, num_hosts)
    return num_ways - 1


def _shape(placement: Placement, kinds: Sequence[tuple], ranks: Sequence[int]) -> frozenset:
    """Equal for workers that are alike, host by host: how many hosts have how many of each kind."""
    of_host: dict[int, Counter] = defaultdict(Counter)
    for rank in ranks:
        of_host[placement.host_of[rank]][kinds[rank]] += 1
    return frozenset(Counter(frozenset(kinds.items()) for kinds in of_host.values()).items())


def _counted(groups: Sequence[Sequence[int]]) -> Iterator[tuple[int, ...]]:
    """Every number of workers of every group, but none of all."""
    for counts in product(*(range(len(ranks) + 1) for ranks in groups)):
        if any(counts):
            yield tuple(sorted(rank for ranks, count in zip(groups, counts, strict=True) for rank in ranks[:count]))


def _groups(placement: Placement, rates_s: Sequence[float], kinds: Sequence[tuple]) -> list[list[int]]:
    """Ranks of workers that are alike, in the order in which they are taken."""
    alone = Counter(placement.host_of)
    found: dict[tuple, list[int]] = {}
    for rank, kind in enumerate(kinds):
        # Where a host has several workers, which of them share its link matters: it is a group of its own.
        host = placement.host_of[rank] if alone[placement.host_of[rank]] > 1 else -1
        found.setdefault((host, *kind), []).append(rank)
    return [sorted(ranks, key=lambda rank: (rates_s[rank], rank)) for ranks in found.values()]


def _kind(placement: Placement, rank: int) -> tuple:
    """What is equal for workers that are alike."""
    worker, profile = placement.workers[rank], placement.profile_of(rank)
    link, of_host = worker.link, (worker.cpu_cores, worker.region_bytes, worker.pinned_bytes, worker.price_per_hour)
    limits = *of_host, link.bytes_per_s, link.latency_s
    if profile.own_host is None:
        return worker.profile, worker.memory_bytes, *limits
    about_bytes = round(math.log(worker.memory_bytes, _NEARLY))
    # Hosts beside each other on one machine slow each other down, and collectives were measured among one session's.
    machine = profile.shared_machine.name if profile.shared_machine else ""
    where = profile.session, machine
    return profile.device_kind, profile.device_name, profile.num_threads, about_bytes, *where, *limits


def _epoch_prices(placement: Placement, rates_s: Sequence[float]) -> list[float]:
    """By worker, what an epoch would cost if it alone worked through it, at its part of its host's price."""
    size = Counter(placement.host_of)
    return [
        rate_s * worker.price_per_hour / size[worker.host_index]
        for rate_s, worker in zip(rates_s, placement.workers, strict=True)
    ]


def _of_fastest(
    placement: Placement, groups: Iterable[Sequence[int]], rates_s: Sequence[float]
) -> list[tuple[int, ...]]:
    """All, then half of them, a quarter ... by speed, the fastest alone; groups of alike ones; and whole hosts.

    Of hosts it is the fastest one, the fastest two, and so on.
    """
    order = sorted(range(len(rates_s)), key=lambda rank: (rates_s[rank], rank))
    sizes = [len(order)]
    while sizes[-1] > 1:
        sizes.append((sizes[-1] + 1) // 2)
    by_speed = [tuple(sorted(order[:size])) for size in sizes]
    of_host: dict[int, list[int]] = defaultdict(list)
    for rank, host in enumerate(placement.host_of):
        of_host[host].append(rank)
    hosts = sorted(of_host.values(), key=lambda ranks: (sum(rates_s[rank] for rank in ranks) / len(ranks), ranks))
    whole = [tuple(sorted(ranks)) for ranks in accumulate(hosts)] if len(hosts) < len(order) else []
    return list(dict.fromkeys([*by_speed, *map(tuple, groups), *whole]))
