"""Who sleeps when: a pure function of (seed, worker, epoch), for simulator and runtime alike."""

from __future__ import annotations

import numpy as np

from gnnplan.planner.partial.rule import WARM_UP_EPOCHS
from gnnplan.planner.weather.model import SleepWeather
from gnnplan.profiles.kernels.counter import chained_key, splitmix_at


def sleeps_s(weather: SleepWeather, worker: int, num_epochs: int, epoch_s: float, replica: int = 0) -> np.ndarray:
    """float64 [E]: seconds that a worker sleeps in each epoch.

    Args:
        epoch_s: the plan's predicted epoch, for `sleep_epochs`.
        replica: another draw of the same weather; the runtime's is 0.
    """
    begins = _uniform(chained_key(weather.seed, replica, worker), num_epochs) < weather.probability
    begins[:WARM_UP_EPOCHS] = False
    asleep = begins.copy()
    for later in range(1, min(weather.duration_epochs, num_epochs)):
        asleep[later:] |= begins[:-later]
    return asleep * weather.seconds(epoch_s)


def _uniform(key: int, count: int) -> np.ndarray:
    """float64 [count] in [0, 1): a splitmix64 stream, the same on every machine."""
    bits = splitmix_at(np.uint64(key), np.arange(count, dtype=np.uint64))
    return (bits >> np.uint64(11)).astype(np.float64) * 2.0**-53
