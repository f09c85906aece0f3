"""The interval of a plan's epoch, from its schedules and the profiles that they were predicted by."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from gnnplan.planner.cluster import Placement
from gnnplan.planner.interval.deviation import epoch_deviation, guessed_share
from gnnplan.planner.interval.interval import Interval
from gnnplan.planner.interval.residuals import Residuals
from gnnplan.planner.schedule import Schedule
from gnnplan.profiles.machine import MachineProfile


def interval_of(schedules: Sequence[Schedule], placement: Placement, middle_s: float, work: str) -> Interval:
    """Around a predicted epoch.

    Args:
        schedules: of the epochs that come over and over, in their order; equal ones are one object.
        middle_s: the predicted epoch.
        work: what is trained (`gnnplan.planner.interval.work.work_of`).
    """
    deviation_of = {number: epoch_deviation(each) for number, each in {id(each): each for each in schedules}.items()}
    deviation = float(np.mean([deviation_of[id(each)] for each in schedules]))
    published = frozenset(
        rank for rank in range(len(placement.workers)) if not _is_measured(placement.profile_of(rank))
    )
    return Interval.around(middle_s, _residuals(placement, work), deviation, guessed_share(schedules, published))


def _is_measured(profile: MachineProfile) -> bool:
    return any(point.provenance == "measured" for table in profile.operators.values() for point in table.points)


def _residuals(placement: Placement, work: str) -> Residuals:
    """Those of the least known profile."""
    used = [placement.profiles[name] for name in {worker.profile for worker in placement.workers}]
    if not any(profile.corrections for profile in used):
        return "profiled"
    return "calibrated" if all(work in profile.calibrated_on for profile in used) else "calibrated elsewhere"
