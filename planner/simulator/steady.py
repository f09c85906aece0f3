"""Epochs as they follow one another: under a quota a single one, begun with fresh periods, looks too fast."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from gnnplan.planner.schedule import Schedule
from gnnplan.planner.simulator.engine import CompiledSchedule, Timeline, compile_schedule, play
from gnnplan.planner.simulator.on_end import on_end
from gnnplan.planner.simulator.tables import Ints

_PERIODS = 24  # of the longest quota, over which epochs are played
_MOST_EPOCHS = 48


@dataclass(frozen=True)
class Epochs:
    """When each of T tasks took its resource, started its work and ended, in each of K epochs: [K, T].

    Nanoseconds from when the first worker began the epoch. `epoch_ns` [K] is from the last worker's end of the epoch
    before to that of this one: who ends early begins the next one early, so that added up from begin to end epochs
    would last longer than all of them together.
    """

    arrive_ns: Ints
    start_ns: Ints
    end_ns: Ints
    epoch_ns: Ints

    @property
    def median_epoch(self) -> int:
        """Index of the epoch of median length, the shorter of two."""
        return int(np.argsort(self.epoch_ns, kind="stable")[(len(self.epoch_ns) - 1) // 2])

    @property
    def median_epoch_s(self) -> float:
        """Its seconds."""
        return int(self.epoch_ns[self.median_epoch]) / 1e9


def epochs_to_play(schedule: Schedule) -> int:
    """How many epochs show the quotas' whole play, the first, which is not like the others, included; else 1."""
    if not schedule.quotas:
        return 1
    first_ns = play(compile_schedule(schedule)).makespan_ns
    span_ns = _PERIODS * max(quota.period_s for quota in schedule.quotas.values()) * 1e9
    return 1 + min(max(math.ceil(span_ns / max(first_ns, 1)), 1), _MOST_EPOCHS)


@dataclass(frozen=True)
class MedianEpoch:
    """Epochs on end as one schedule, and when the one of median length begins and ends among them, ns."""

    compiled: CompiledSchedule
    timeline: Timeline
    begin_ns: int
    end_ns: int


def median_epoch_of(schedule: Schedule) -> MedianEpoch:
    """The epoch that `play_epochs` calls the median one, with what runs around it.

    Raises `ValueError` as `play_epochs` does.
    """
    count = epochs_to_play(schedule)
    compiled = on_end([compile_schedule(schedule)] * count)
    timeline = play(compiled)
    ends_ns = timeline.end_ns.reshape(count, len(schedule.tasks)).max(1, initial=0)
    shown = play_epochs(schedule).median_epoch + min(1, count - 1)
    return MedianEpoch(compiled, timeline, int(ends_ns[shown - 1]) if shown else 0, int(ends_ns[shown]))


def play_epochs(schedule: Schedule) -> Epochs:
    """Plays as many epochs on end as the schedule's quotas ask for.

    Raises `ValueError` as `compile_schedule` and `play` do.
    """
    count = epochs_to_play(schedule)
    timeline = play(on_end([compile_schedule(schedule)] * count))
    shape = (count, len(schedule.tasks))
    times = [t.reshape(shape)[min(1, count - 1) :] for t in (timeline.arrive_ns, timeline.start_ns, timeline.end_ns)]
    begin_ns = times[0].min(1, keepdims=True) if schedule.tasks else 0
    ends_ns = timeline.end_ns.reshape(shape).max(1, initial=0)
    arrive_ns, start_ns, end_ns = (t - begin_ns for t in times)
    return Epochs(arrive_ns, start_ns, end_ns, np.diff(ends_ns) if count > 1 else ends_ns)
