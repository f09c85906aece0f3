"""Epochs under partial reduce and weather: workers go on without those that lag behind, by the runtime's own rule."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from gnnplan.planner.partial.decision import PartialReduceDecision
from gnnplan.planner.schedule import Schedule
from gnnplan.planner.weather.conditions import Conditions
from gnnplan.planner.weather.play import Run
from gnnplan.planner.weather.sections import Sections, sections_of
from gnnplan.profiles.kernels.lazily import Lazily

_rounds = Lazily("gnnplan.planner.weather.rounds")


class Waiting(NamedTuple):
    """How a run waits: the numbers of a `PartialReduceDecision`, and epochs from refresh to refresh of kept rows."""

    alpha: float
    max_staleness: int
    min_group: int
    closing_epochs: int = 1
    interval: int = 1

    @classmethod
    def of(cls, decision: PartialReduceDecision, interval: int = 1) -> Waiting:
        """Those of a decision."""
        return cls(decision.alpha, decision.max_staleness, decision.min_group, decision.closing_epochs, interval)


@dataclass(frozen=True)
class PartialEpochs:
    """Runs of a plan with partial reduce, in sections between its exchanges.

    Args:
        num_epochs: of the plan's run. Where conditions are for fewer, as many fewer of them are closing ones.
    """

    sections: Sections
    waiting: Waiting
    num_epochs: int

    @property
    def num_workers(self) -> int:
        """W."""
        return self.sections.num_workers

    def play(self, conditions: Conditions) -> Run:
        """Plays one run of E epochs."""
        sections, num_epochs = self.sections, conditions.sleep_s.shape[1]
        num_workers, num_exchanges = sections.num_workers, len(sections.transfer_s) - 1
        assert len(conditions.compute) == num_workers, (conditions.compute.shape, num_workers)
        end_s = np.zeros(num_epochs)
        num_members, oldest = (np.zeros(num_epochs, np.int64) for _ in range(2))
        work = _rounds.Work(
            sections.compute_s,
            sections.transfer_s,
            sections.backward,
            conditions.change_s,
            conditions.compute,
            conditions.link,
            conditions.sleep_s,
        )
        alpha, max_staleness, min_group, closing_epochs, interval = self.waiting
        if closing_epochs and num_epochs < self.num_epochs:
            closing_epochs = max(1, round(closing_epochs * num_epochs / self.num_epochs))
        state = _rounds.new_state(num_workers, num_exchanges)
        rule = float(alpha), max_staleness, min_group, num_epochs - closing_epochs, interval
        _rounds.play_run(work, state, *rule, end_s, num_members, oldest)
        return Run(np.diff(end_s, prepend=0.0), num_members, oldest)


def aligned_sections(schedule: Schedule, epoch_s: float) -> Sections:
    """The sections of a schedule, all scaled so that a fair epoch takes `epoch_s`.

    The event engine knows CPU quotas and their bursts, sections do not: its epoch is taken over as a whole.
    """
    sections = sections_of(schedule)
    plain_s = sections.fair_epoch_s
    return sections.scaled(epoch_s / plain_s) if plain_s > 0 else sections
