"""One epoch of each worker, cut where it exchanges with others."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from gnnplan.planner.schedule import Schedule


@dataclass(frozen=True)
class Sections:
    """Of W workers, whose epoch has S exchanges of halo rows, a reduction and the optimizer's step.

    Args:
        compute_s: float64 [W, S + 2], seconds of work before each exchange, before the reduction, and after it.
        transfer_s: float64 [S + 1], of each exchange and of the reduction.
        backward: the section in which the backward pass begins.
    """

    compute_s: np.ndarray
    transfer_s: np.ndarray
    backward: int

    @property
    def num_workers(self) -> int:
        """W."""
        return len(self.compute_s)

    @property
    def fair_epoch_s(self) -> float:
        """Seconds from one step's end to the next one's in fair weather, where all wait for all."""
        first_s = self.compute_s[:, -1] + self.compute_s[:, 0]  # nobody waits between a step and the first exchange
        return float(first_s.max() + self.compute_s[:, 1:-1].max(0).sum() + self.transfer_s.sum())

    def scaled(self, factor: float) -> Sections:
        """The same with all seconds times a factor."""
        return Sections(self.compute_s * factor, self.transfer_s * factor, self.backward)


def sections_of(schedule: Schedule) -> Sections:
    """The sections of a lowered epoch of full-batch training; CPU quotas are left out.

    What is computed beside an exchange counts as if it came after it. Where no rows travel nobody waits for anybody.
    """
    compute: list[list[float]] = [[0.0] for _ in range(schedule.num_workers)]
    transfer_s, backward = [], 0
    for task in schedule.tasks:
        sections = compute[task.worker]
        if task.category == "communicate":
            if task.group < 0:
                continue
            if task.worker == 0:
                transfer_s.append(task.seconds)
            sections.append(0.0)
            continue
        if task.key == "loss":
            backward = len(sections) - 1
        sections[-1] += task.seconds
    if schedule.num_workers == 1:  # nothing to exchange, nothing to reduce
        compute, transfer_s = [[*compute[0], 0.0]], [0.0]
    return Sections(np.array(compute), np.array(transfer_s), backward)
