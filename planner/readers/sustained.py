"""What epochs on end take in the mean: under a quota a single one may be far from it, to either side."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence

import numpy as np

from gnnplan.planner.readers.bound import Bound
from gnnplan.planner.schedule import Schedule
from gnnplan.planner.simulator.steady import play_epochs

_ROUNDED_DOWN = 1 - 1e-6  # the engine counts whole nanoseconds


def has_pauses(schedules: Iterable[Schedule]) -> bool:
    """Whether a quota stops any worker."""
    return any(quota.share < 1 for each in schedules for quota in each.quotas.values())


def long_run_epoch_s(schedules: Sequence[Schedule]) -> float:
    """Simulated seconds of n epochs on end over n, for large n; where no quota stops anybody they are all alike.

    Args:
        schedules: as `mean_epoch_s` takes them.
    """
    if has_pauses(schedules):
        return mean_epoch_s(schedules)
    count = Counter(map(id, schedules))
    each_s = {id(each): play_epochs(each).median_epoch_s for each in schedules}
    return sum(count[key] / len(schedules) * seconds for key, seconds in each_s.items())


def mean_epoch_s(schedules: Sequence[Schedule]) -> float:
    """Simulated seconds of an epoch, in the mean of epochs on end; of several kinds the mean of theirs.

    What is played is no endless run: it may be short of two pauses, which a longer one is not spared.

    Args:
        schedules: of the epochs that come over and over, in their order.
    """
    found = {id(each): float(play_epochs(each).epoch_ns.mean()) / 1e9 for each in schedules}
    played_s = sum(found[id(each)] for each in schedules) / len(schedules)
    return max(played_s, _in_all_s(schedules).max() * _ROUNDED_DOWN)


def sustained_s(schedule: Schedule) -> np.ndarray:
    """Float64 [W]: seconds of every worker's own resource that an epoch takes up, in the long run.

    A worker computes one operator at a time, and a task's `seconds` are sustained ones. Under a quota what collectives
    use of its processor is missing to its operators; n epochs take n times as long, but for two periods' pauses.
    """
    found = np.zeros(schedule.num_workers)
    for task in schedule.tasks:
        quota = schedule.quotas.get(task.charged)
        if task.group < 0 and task.resource < schedule.num_workers:
            found[task.resource] += task.seconds
        elif task.group >= 0 and quota is not None and quota.share < 1:
            found[task.charged] += task.processor_s / quota.share
    return found


def sustained_bound(schedules: Sequence[Schedule], single: Bound) -> Bound:
    """No run of many epochs takes less an epoch: the bound of every single one, or what the busiest worker sustains."""
    in_all = _in_all_s(schedules)
    worker = int(in_all.argmax())
    found = Bound(float(in_all[worker]) * _ROUNDED_DOWN, f"compute lane of worker {worker} under its quota")
    return found if schedules[0].quotas and found.seconds > single.seconds else single


def _in_all_s(schedules: Sequence[Schedule]) -> np.ndarray:
    """Float64 [W]: `sustained_s`, in the mean of epochs of several kinds."""
    return sum((sustained_s(each) for each in schedules), start=np.zeros(schedules[0].num_workers)) / len(schedules)
