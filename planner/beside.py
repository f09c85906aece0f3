"""Workers whose neighbours rest: hosts that share a machine were profiled while all of them computed."""

from __future__ import annotations

from gnnplan.planner.cluster import Placement
from gnnplan.profiles.machine import MachineProfile


def shares_beside(placement: Placement) -> dict[str, float]:
    """By profile, seconds of its workers' operators over those that were timed: less where hosts beside them rest."""
    return {name: _share(profile, placement) for name, profile in placement.profiles.items()}


def paces_beside(placement: Placement) -> dict[str, float]:
    """By profile, processor seconds that a thread has in a second while every worker of its machine computes.

    One where each thread has a core. Fewer where hosts with quotas have more threads than their machine has cores: over
    many periods each still has its quota, but it does not use it up at once. In an epoch all wait for each other, so
    they begin to compute together.
    """
    return {name: _pace(profile, placement) for name, profile in placement.profiles.items()}


def _pace(profile: MachineProfile, placement: Placement) -> float:
    own = profile.shared_machine
    if own is None or own.num_cores is None:
        return 1.0
    beside = (placement.profiles[worker.profile] for worker in placement.workers)
    num_threads = sum(other.num_threads for other in beside if _is_beside(profile, other))
    return min(1.0, own.num_cores / max(num_threads, 1))


def _share(profile: MachineProfile, placement: Placement) -> float:
    own = profile.shared_machine
    return own.share(_num_computing(profile, placement)) if own else 1.0


def _num_computing(profile: MachineProfile, placement: Placement) -> int:
    """Hosts of the placement on the machine of a profile, by their profiles."""
    others = {worker.host_index: placement.profiles[worker.profile] for worker in placement.workers}
    return sum(_is_beside(profile, other) for other in others.values())


def _is_beside(one: MachineProfile, other: MachineProfile) -> bool:
    here, there = one.shared_machine, other.shared_machine
    return here is not None and there is not None and (one.session, here.name) == (other.session, there.name)
