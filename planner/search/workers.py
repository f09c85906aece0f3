"""Which workers may take part: subsets of those at hand, equal ones once."""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from itertools import product

from gnnplan.planner.cluster import Placement

_MOST_SUBSETS = 64  # more of them than this are not all looked at, only those of the fastest workers
_NEARLY = 1.03  # times as much memory: hosts of one kind differ by less


def subsets(placement: Placement, rates_s: Sequence[float], *, by_price: bool = False) -> list[tuple[int, ...]]:
    """Ranks that could train together, no two subsets alike; the whole comes first, single workers last.

    Workers are alike that are of one profile, on hosts with equal links, memory and price. Where every host was
    profiled by itself, those are that have devices of one name: as many slower ones are no better. Of devices that are
    alike on one host the first ones are taken, and of hosts that are alike the fastest ones, then the first.

    Args:
        rates_s: seconds in which each worker alone would work through a whole epoch.
        by_price: whether, where they are too many, those of the workers that cost least for their speed are there too.
    """
    kinds = [_kind(placement, rank) for rank in range(len(rates_s))]
    groups = _groups(placement, rates_s, kinds)
    if math.prod(len(ranks) + 1 for ranks in groups) - 1 > _MOST_SUBSETS:
        found = _of_fastest(groups, rates_s)
        cheap = _of_fastest(groups, _epoch_prices(placement, rates_s)) if by_price else []
        return list(dict.fromkeys([*found, *cheap]))
    in_order = sorted(_counted(groups), key=lambda ranks: (-len(ranks), sum(rates_s[rank] for rank in ranks), ranks))
    distinct: dict[frozenset, tuple[int, ...]] = {}
    for ranks in in_order:
        distinct.setdefault(_shape(placement, kinds, ranks), ranks)
    return list(distinct.values())


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
    return profile.device_kind, profile.device_name, profile.num_threads, about_bytes, *limits


def _epoch_prices(placement: Placement, rates_s: Sequence[float]) -> list[float]:
    """By worker, what an epoch would cost if it alone worked through it, at its part of its host's price."""
    size = Counter(placement.host_of)
    return [
        rate_s * worker.price_per_hour / size[worker.host_index]
        for rate_s, worker in zip(rates_s, placement.workers, strict=True)
    ]


def _of_fastest(groups: Sequence[Sequence[int]], rates_s: Sequence[float]) -> list[tuple[int, ...]]:
    """All, then half of them, a quarter ... by speed, and whole groups of alike ones; the fastest alone."""
    order = sorted(range(len(rates_s)), key=lambda rank: (rates_s[rank], rank))
    sizes = [len(order)]
    while sizes[-1] > 1:
        sizes.append((sizes[-1] + 1) // 2)
    by_speed = [tuple(sorted(order[:size])) for size in sizes]
    return list(dict.fromkeys([*by_speed, *map(tuple, groups)]))
