"""Workers whose neighbours rest: hosts that share a machine were profiled while all of them computed."""

from __future__ import annotations

from gnnplan.planner.cluster import Placement
from gnnplan.profiles.machine import MachineProfile


def shares_beside(placement: Placement) -> dict[str, float]:
    """By profile, seconds of its workers' operators over those that were timed: less where hosts beside them rest."""
    return {name: _share(profile, placement) for name, profile in placement.profiles.items()}


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
