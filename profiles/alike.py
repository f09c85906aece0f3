"""Hosts of one kind, profiled side by side: what all of them timed says more of each than what it timed itself.

Short calls under a quota, beside others that are now at work and now not, vary by a tenth or more from host to host
where the hosts do not differ at all. So every point becomes the median over the hosts. What a host differs by stays:
throughout, as a factor that its points' scatter does not explain, or in one operator, by more than a few points of one
minute vary by.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import sqrt

import numpy as np

from gnnplan.profiles.machine import MachineProfile, OperatorTable, SharedMachine

_LEAST = 0.03  # a smaller difference between hosts comes and goes by the minute
_NUM_ERRORS = 3.0  # standard errors of a median, beyond which one counts
_LEAST_OF_OPERATOR = 0.25  # in all points of one
_TINY_S = 1e-9
_OVERHEADS = ("host_overhead_s", "step_overhead_s")
_OF_MEDIAN = 1.2533  # its standard error over that of a mean, of normal deviations


def sharing_timings(profiles: Sequence[MachineProfile]) -> list[MachineProfile]:
    """The profiles, in their order; those of hosts that are alike have each other's timings.

    Alike are hosts of one device, with as many threads, cores and workers, whose tables have the same points.
    """
    groups: dict[tuple, list[int]] = {}
    for number, profile in enumerate(profiles):
        groups.setdefault(_kind(profile), []).append(number)
    found = list(profiles)
    for numbers in groups.values():
        if len(numbers) > 1:
            for number, shared in zip(numbers, _shared([profiles[n] for n in numbers]), strict=True):
                found[number] = shared
    return found


def _kind(profile: MachineProfile) -> tuple:
    """What is equal for profiles of hosts that are alike."""
    own = profile.own_host
    limits = (own.cpu_cores, own.num_workers) if own else ()
    tables = tuple((name, tuple(p.shape for p in table.points)) for name, table in sorted(profile.operators.items()))
    device = profile.device_kind, profile.device_name, profile.num_threads, profile.num_workers_beside
    return *device, profile.cpu_quota, tuple(sorted(profile.software.items())), limits, tables


def _shared(profiles: Sequence[MachineProfile]) -> list[MachineProfile]:
    logs = {name: _logs([each.operators[name] for each in profiles]) for name in profiles[0].operators}
    own = _own_factors(np.concatenate(list(logs.values()), axis=1))
    factors = np.exp(own)
    overheads_s = {n: float(np.median([getattr(each, n) for each in profiles] / factors)) for n in _OVERHEADS}
    machine = _machines(profiles)
    spreads = {name: _relative_spread([each.operators[name] for each in profiles]) for name in logs}
    found = []
    for number, profile in enumerate(profiles):
        tables = {}
        for name, table in profile.operators.items():
            levelled = logs[name] - own[:, None]
            middle = np.median(levelled, axis=0)
            beside = float(np.median(levelled[number] - middle))
            of_operator = beside if abs(beside) > _LEAST_OF_OPERATOR else 0.0
            tables[name] = _at(table, np.exp(middle + own[number] + of_operator), spreads[name])
        alike = tuple(each.host for each in profiles if each is not profile and each.host)
        own_s = {name: float(factors[number]) * seconds for name, seconds in overheads_s.items()}
        shared = {"shared_machine": machine[profile.shared_machine.name if profile.shared_machine else None]}
        found.append(profile.model_copy(update={"operators": tables, "alike": alike, **own_s, **shared}))
    return found


def _machines(profiles: Sequence[MachineProfile]) -> dict[str | None, SharedMachine | None]:
    """By name the machine that hosts share, with the median of what they say of being alone on it."""
    shared = [each.shared_machine for each in profiles if each.shared_machine]
    found: dict[str | None, SharedMachine | None] = {None: None}
    for each in shared:
        alone = float(np.median([other.alone_share for other in shared if other.name == each.name]))
        found[each.name] = each.model_copy(update={"alone_share": alone})
    return found


def _own_factors(logs: np.ndarray) -> np.ndarray:
    """float64 [hosts]: logarithm of what each differs by throughout; zeros where their points' scatter explains all.

    Args:
        logs: float64 [hosts, points] of seconds.
    """
    deviations = logs - np.median(logs, axis=0)
    own = np.median(deviations, axis=1)
    spread = 1.4826 * float(np.median(np.abs(deviations - own[:, None])))  # as a standard deviation
    error = _OF_MEDIAN * spread / sqrt(logs.shape[1])
    return own if np.abs(own).max() > max(_LEAST, _NUM_ERRORS * error) else np.zeros_like(own)


def _logs(tables: Sequence[OperatorTable]) -> np.ndarray:
    """float64 [hosts, points]: logarithms of seconds."""
    return np.log([[_some(point.median_s) for point in table.points] for table in tables])


def _some(seconds: float) -> float:
    """Of nothing there is no logarithm."""
    return max(seconds, _TINY_S)


def _relative_spread(tables: Sequence[OperatorTable]) -> np.ndarray:
    """float64 [points]: what calls vary by, as a part of their seconds; the median over the hosts."""
    return np.median([[p.spread_s / _some(p.median_s) for p in table.points] for table in tables], axis=0)


def _at(table: OperatorTable, seconds: np.ndarray, relative_spread: np.ndarray) -> OperatorTable:
    """A table with other seconds."""
    points = tuple(
        point.model_copy(update={"median_s": float(new), "spread_s": float(new * spread)})
        for point, new, spread in zip(table.points, seconds, relative_spread, strict=True)
    )
    return table.model_copy(update={"points": points})
