"""Chooses how long to wait and how much staleness to allow, for the weather that a job names."""

from __future__ import annotations

import sys

import numpy as np

from gnnplan.planner.job import Job
from gnnplan.planner.partial.decision import PartialReduceDecision
from gnnplan.planner.partial.rule import majority
from gnnplan.planner.weather.partial_epochs import PartialEpochs, Waiting
from gnnplan.planner.weather.play import figures, replicas_of
from gnnplan.planner.weather.sections import Sections

ALPHAS = (1.0, 0.5, 0.25, 0.1, 0.0)
STALENESSES = (1, 2, 3, 5)
PAPER_ALPHA, PAPER_STALENESS = 0.5, 3  # NeutronCloud, sections 5.2 and 6.1
_NEGLIGIBLE = 0.02
_NUM_REPLICAS = 40


def most_staleness(job: Job) -> int:
    """The largest K that may be chosen for a job that pins partial reduce."""
    assert job.pin.partial_reduce is not None
    most = PAPER_STALENESS if job.training.weather is None else max(STALENESSES)
    if job.pin.partial_reduce.max_staleness is not None:
        most = job.pin.partial_reduce.max_staleness
    return min(most, job.training.epochs, _allowed(job))  # nothing is older than the run


def _allowed(job: Job) -> int:
    """The largest K that the job's fidelity allows: with K, rows of K + 1 epochs are used."""
    return (job.most.limit or sys.maxsize) - 1


def choose_partial_reduce(
    job: Job, sections: Sections, epoch_s: float, contributing: np.ndarray, interval: int = 1
) -> PartialReduceDecision:
    """What the job pins, and of the rest the freshest choice whose run is hardly slower than the fastest.

    Of all pairs of alpha and K whose 95th percentile over replicas lies within 2% of the least, the one with the
    smallest K, and then with the largest alpha. Without weather the paper's: alpha 0.5, K 3.

    Args:
        epoch_s: the plan's predicted epoch.
        contributing: int64 [L, W].
        interval: epochs from one that refreshes kept rows to the next.

    Where more workers are pinned as the least group than take part, it is all of these.
    """
    pin, size = job.pin.partial_reduce, sections.num_workers
    assert pin is not None
    min_group = min(pin.min_group or majority(size), size)
    closing_epochs = pin.closing_epochs or 1
    alphas = ALPHAS if pin.alpha is None else (pin.alpha,)
    of_job = STALENESSES if pin.max_staleness is None else (pin.max_staleness,)
    stalenesses = tuple(dict.fromkeys(min(each, _allowed(job)) for each in of_job))
    alpha, max_staleness = alphas[0], stalenesses[0]
    if job.training.weather is None:
        alpha = PAPER_ALPHA if pin.alpha is None else pin.alpha
        max_staleness = most_staleness(job)
    elif len(alphas) * len(stalenesses) > 1:
        num_epochs = job.training.epochs
        conditions_of = replicas_of(job.training.weather, size, num_epochs, epoch_s)
        drawn = [conditions_of(1 + replica) for replica in range(_NUM_REPLICAS)]  # 0 is what the run itself meets
        waiting = {(k, a): Waiting(a, k, min_group, closing_epochs, interval) for k in stalenesses for a in alphas}
        p95_s = {
            pair: figures(PartialEpochs(sections, each, num_epochs), drawn.__getitem__, _NUM_REPLICAS).p95_run_epoch_s
            for pair, each in waiting.items()
        }
        least_s = min(p95_s.values())
        max_staleness, alpha = next(pair for pair, seconds in p95_s.items() if seconds <= (1 + _NEGLIGIBLE) * least_s)
    return PartialReduceDecision(
        alpha=alpha,
        max_staleness=min(max_staleness, job.training.epochs),
        min_group=min_group,
        closing_epochs=closing_epochs,
        average_epochs=pin.average_epochs,
        absent=pin.absent,
        contributing=tuple(map(tuple, contributing.tolist())),
    )
