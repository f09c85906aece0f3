"""What a plan's own weather does to its run."""

from __future__ import annotations

import numpy as np

from gnnplan.planner.plan import Plan
from gnnplan.planner.weather.model import SleepWeather
from gnnplan.planner.weather.sleeps import sleeps_s


def planned_sleeps_s(plan: Plan, worker: int) -> np.ndarray:
    """float64 [E]: seconds that the plan's job has a worker sleep in each epoch."""
    training = plan.job.training
    if not isinstance(training.weather, SleepWeather):
        return np.zeros(training.epochs)
    return sleeps_s(training.weather, worker, training.epochs, plan.prediction.epoch_s)
