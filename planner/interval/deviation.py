"""What of an epoch is uncertain: how operators were timed to spread, and how much of it nobody measured."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import replace

from gnnplan.planner.schedule import Schedule, Task
from gnnplan.planner.simulator.montecarlo import log_deviation
from gnnplan.planner.simulator.steady import play_epochs


def epoch_deviation(schedule: Schedule) -> float:
    """Standard deviation of the logarithm of the epoch, to first order.

    An operator that was timed too fast is too fast in all its tasks. So all tasks of an operator move together, on all
    workers, by one deviation each; operators are taken to be independent. The variance is the sum of the squared
    logarithms of how much longer the simulated epoch then is (error propagation: the delta method).

    Raises `ValueError` as `play_epochs` does.
    """
    base_s = play_epochs(schedule).median_epoch_s
    if not base_s:
        return 0.0
    varying = sorted({_operator(task) for task in schedule.tasks if task.spread_s > 0 and task.seconds > 0})
    longer = (play_epochs(_slower(schedule, operator)).median_epoch_s / base_s for operator in varying)
    return math.sqrt(sum(math.log(max(each, 1.0)) ** 2 for each in longer))


def _operator(task: Task) -> str:
    """The operator that most of a task is."""
    return max(task.parts, key=lambda part: part[1])[0] if task.parts else task.category


def _slower(schedule: Schedule, operator: str) -> Schedule:
    """With all tasks of an operator one deviation above their median."""

    def moved(task: Task) -> Task:
        if _operator(task) != operator or not task.spread_s or not task.seconds:
            return task
        return replace(task, seconds=task.seconds * math.exp(log_deviation(task.seconds, task.spread_s)))

    return Schedule(schedule.num_workers, [moved(task) for task in schedule.tasks], schedule.quotas)


def guessed_share(schedules: Iterable[Schedule], published: frozenset[int]) -> float:
    """Of the seconds of all tasks, those of shapes outside the profile or of figures that nobody measured.

    Args:
        published: workers whose profile has no measured operator.
    """
    tasks = [task for schedule in schedules for task in schedule.tasks]
    total_s = sum(task.seconds for task in tasks)
    guessed_s = sum(task.seconds for task in tasks if task.unprofiled or task.worker in published)
    return min(guessed_s / total_s, 1.0) if total_s else 0.0
