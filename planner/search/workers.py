"""Which workers may take part: subsets of those at hand, equal ones once."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from itertools import product
from math import prod

from gnnplan.planner.cluster import Placement

_MOST_SUBSETS = 64  # more of them than this are not all looked at, only those of the fastest workers
_NEARLY = 1.03  # times as long, and as much memory: less is what two profiles of one machine differ by


def subsets(placement: Placement, rates_s: Sequence[float], *, by_price: bool = False) -> list[tuple[int, ...]]:
    """Ranks that could train together, no two subsets alike; the whole comes first, single workers last.

    Workers are alike that are of one profile, on hosts with equal links, memory and price. So are those of profiles
    that were measured on devices of one name, and nearly as fast. Of devices that are alike on one host the first ones
    are taken, and of hosts that are alike the fastest ones, then the first.

    Args:
        rates_s: seconds in which each worker alone would work through a whole epoch.
        by_price: whether, where they are too many, those of the workers that cost least for their speed are there too.
    """
    kinds = _kinds(placement, rates_s)
    groups = _groups(placement, rates_s, kinds)
    if prod(len(ranks) + 1 for ranks in groups) - 1 > _MOST_SUBSETS:
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


def _kinds(placement: Placement, rates_s: Sequence[float]) -> list[tuple]:
    """Of every worker what is equal for those that are alike: its host's limits, and the fastest that it is like."""
    found: list[tuple] = [()] * len(rates_s)
    classes: dict[tuple, list[int]] = defaultdict(list)  # the fastest of each, ascending
    for rank in sorted(range(len(rates_s)), key=lambda rank: (rates_s[rank], rank)):
        limits = _limits(placement, rank)
        like = next((other for other in classes[limits] if _are_alike(placement, rates_s, other, rank)), None)
        if like is None:
            classes[limits].append(rank)
        found[rank] = (rank if like is None else like, *limits)
    return found


def _limits(placement: Placement, rank: int) -> tuple:
    worker, profile = placement.workers[rank], placement.profile_of(rank)
    link, of_host = worker.link, (worker.cpu_cores, worker.region_bytes, worker.price_per_hour)
    device = profile.device_kind, profile.device_name, profile.num_threads
    return *device, *of_host, link.bytes_per_s, link.latency_s


def _are_alike(placement: Placement, rates_s: Sequence[float], faster: int, slower: int) -> bool:
    one, other = placement.workers[faster], placement.workers[slower]
    if one.profile == other.profile and one.memory_bytes == other.memory_bytes:
        return True
    least, most = sorted((one.memory_bytes, other.memory_bytes))
    are_measured = all(placement.profile_of(rank).own_host is not None for rank in (faster, slower))
    return are_measured and rates_s[slower] <= _NEARLY * rates_s[faster] and most <= _NEARLY * least


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
