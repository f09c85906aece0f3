"""What checkpoints cost a training: within a run, beside what the same seconds bring between two checkpoints.

A run's pace drifts by more than a checkpoint costs. So each one is set against the seconds around it, and the same is
done for moments at which there was none: what these come to is how far the figure can be trusted.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np

from gnnplan.planner import api
from gnnplan.planner.graph import Graph

MARGIN_S = 0.5
"""Before a checkpoint and after it: epochs are told a few times a second."""
_AROUND_S = 3.0
EVERY = "10s"


@dataclass
class Watched:
    """What a run told, by its clock.

    Args:
        ticks: seconds, and epochs trained by then; they come a few times a second.
        checkpoints: when each was begun and was written, in seconds.
    """

    clock: Callable[[], float] = time.monotonic
    ticks: list[tuple[float, int]] = field(default_factory=list)
    checkpoints: list[tuple[float, float]] = field(default_factory=list)

    def __call__(self, event: dict[str, Any]) -> None:
        """An event of the run."""
        if event["event"] == "epoch":
            self.ticks.append((self.clock(), event["epoch"] + 1))
        elif event["event"] == "checkpoint" and not event["fault"]:
            end_s = self.clock()
            self.checkpoints.append((end_s - event["seconds"], end_s))

    @property
    def seconds(self) -> float:
        """From the first epoch told to the last one."""
        return self.ticks[-1][0] - self.ticks[0][0]

    @property
    def epoch_s(self) -> float:
        """Seconds an epoch, in the mean."""
        return self.seconds / (self.ticks[-1][1] - self.ticks[0][1])


def lost_s(ticks: Sequence[tuple[float, int]], windows: Sequence[tuple[float, float]]) -> float:
    """Seconds that epochs in some windows took longer than epochs in the seconds around them.

    Args:
        ticks: seconds, and epochs trained by then, ascending.
        windows: each from one second to another; those are left out that nothing was told around.
    """
    at_s, trained = (np.array(column, float) for column in zip(*ticks))
    begins_s, ends_s, took_s, epochs = at_s[:-1], at_s[1:], np.diff(at_s), np.diff(trained)
    inside = [(begins_s < end_s + MARGIN_S) & (ends_s > begin_s - MARGIN_S) for begin_s, end_s in windows]
    quiet = ~np.any(inside, axis=0) if inside else np.ones(len(took_s), bool)
    lost = 0.0
    for (begin_s, end_s), its in zip(windows, inside):
        near = quiet & (ends_s > begin_s - MARGIN_S - _AROUND_S) & (begins_s < end_s + MARGIN_S + _AROUND_S)
        if its.any() and near.any():
            lost += took_s[its].sum() - epochs[its].sum() * took_s[near].sum() / epochs[near].sum()
    return float(lost)


def between(windows: Sequence[tuple[float, float]]) -> list[tuple[float, float]]:
    """As long as the windows before them, in the middle between two: nothing is written there."""
    found = []
    for (begin_s, end_s), (next_s, _) in pairwise(windows):
        middle_s, half_s = (end_s + next_s) / 2, (end_s - begin_s) / 2
        found.append((middle_s - half_s, middle_s + half_s))
    return found


def cost_of(plan: Path, graph: Graph, folder: Path, num_pairs: int, every: str | int = EVERY) -> dict[str, Any]:
    """Runs of a plan with checkpoints and without, one after the other, in an order that turns.

    Args:
        folder: of the runs; what the last one has left stays.
        every: `"10s"`, or a number of epochs.
    """
    runs: dict[str | int, list[Watched]] = {every: [], "never": []}
    for pair in range(num_pairs):
        for how in list(runs)[:: 1 if pair % 2 else -1]:
            watched = Watched()
            api.run(plan, folder / str(how), graph=graph, checkpoint_every=how, on_event=watched)
            runs[how].append(watched)
    kept = runs[every]
    ratios = [one.epoch_s / other.epoch_s for one, other in zip(kept, runs["never"])]
    seconds = sum(each.seconds for each in kept)
    control = [between(each.checkpoints) for each in kept]
    num_control = sum(map(len, control))
    num_written = sum(len(each.checkpoints) for each in kept)
    lost = sum(lost_s(each.ticks, each.checkpoints) for each in kept)
    nothing = sum(lost_s(each.ticks, windows) for each, windows in zip(kept, control))
    parts = (folder / str(every)).glob("checkpoints/epoch_*/worker_*.npz")
    return {
        "runs": 2 * num_pairs,
        "seconds_trained": seconds,
        "checkpoints": num_written,
        "part_bytes": max(part.stat().st_size for part in parts),
        "cost": lost / seconds,
        "control": nothing / max(num_control, 1) * num_written / seconds,
        "between_runs": float(np.median(ratios)) - 1,
        "between_runs_spread": float(np.ptp(ratios)),
    }


def starts_of(plan: Path, graph: Graph, folder: Path, num_pairs: int, every: int) -> dict[str, Any]:
    """Seconds to the end of the first epoch: of a run's first start, and of a start from its last checkpoint."""
    first, resumed = [], []
    for pair in range(num_pairs):
        run = folder / f"start_{pair}"
        for found, resume in ((first, False), (resumed, True)):
            watched, begun_s = Watched(), time.monotonic()
            api.run(plan, run, graph=graph, checkpoint_every=every, resume=resume, on_event=watched)
            found.append(watched.ticks[0][0] - begun_s)
            assert (watched.ticks[0][1] > 1) == resume, "a run that goes on begins behind the first epoch"
    ratios = [one / other for one, other in zip(resumed, first)]
    return {
        "first_start_s": float(np.median(first)),
        "resumed_start_s": float(np.median(resumed)),
        "resumed_over_first": float(np.median(ratios)),
        "worst_resumed_over_first": max(ratios),
    }
