"""Which halo rows workers keep between epochs (CaPGNN's JACA, section 4.2): as many as fit, where that pays."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from planner.costs import FLOAT_BYTES
from planner.joint_cache.capacity import RESERVE_BYTES, capacity
from planner.joint_cache.decision import NO_CACHE, CacheDecision
from planner.joint_cache.overlap import fresh_counts, kept_rows
from planner.program import LayerDecision

if TYPE_CHECKING:
    from planner.strategies.trial import Trial

_HALVINGS = 6  # of the shares from 0 to 1, in search of the break-even


def choose_cache(trial: Trial, layers: tuple[LayerDecision, ...]) -> CacheDecision:
    """The largest cache that fits, or none where an epoch is not shorter with it (the bypass).

    Every epoch of full-batch training reads the same rows, so the hit ratio of a run is known before it.
    """
    cache = largest_cache(trial, layers)
    if not any(cache.num_rows) or trial.shortfall(layers, cache)[0] > 0:
        return NO_CACHE
    return cache if trial.epoch_s(layers, cache) < trial.epoch_s(layers) else NO_CACHE


def largest_cache(trial: Trial, layers: tuple[LayerDecision, ...]) -> CacheDecision:
    """Algorithm 1's device capacities under the job's pins, and what they leave to be sent in every epoch.

    Owners keep the last gradients of the rows that others keep, at most of all rows they send: taken off first.
    """
    pin = trial.problem.job.pin
    steps = [step for step in trial.program(layers).steps if step.op in ("aggregate", "exchange")]
    fixed = sum(step.in_width for step in steps if step.fixed) if pin.feature_cache else 0
    reused = sum(step.in_width for step in steps if not step.fixed) if pin.refresh_interval > 1 else 0
    if len(trial.shapes) == 1 or fixed + reused == 0:
        return NO_CACHE
    workers, needs = trial.problem.placement.workers, trial.memory(layers)
    num_rows = tuple(
        capacity(
            worker.memory_bytes - need.peak_bytes - shape.num_sent * reused * FLOAT_BYTES,
            RESERVE_BYTES,
            (fixed + reused) * FLOAT_BYTES,
            shape.num_halo,
        )
        for worker, need, shape in zip(workers, needs, trial.shapes, strict=True)
    )
    counts = fresh_counts(trial.halo, kept_rows(trial.halo, num_rows))
    return _decision(num_rows, counts, pin.refresh_interval if reused else 1, keeps_features=pin.feature_cache)


def with_break_even(trial: Trial, layers: tuple[LayerDecision, ...], cache: CacheDecision) -> CacheDecision:
    """The decision with the kept share of the halo rows from which on an epoch is shorter than without it, to 1/64.

    Below, putting kept and fresh rows together costs more than sending all; the share of rows read that are hits
    is (r - 1) / r of it.
    """
    if not any(cache.num_rows):
        return cache
    plain_s, sent = trial.epoch_s(layers), trial.halo.send_counts()
    low, high = 0.0, 1.0
    for _ in range(_HALVINGS):
        middle = (low + high) / 2
        fresh = np.round(sent * (1 - middle)).astype(np.int64)
        num_rows = tuple((sent - fresh).sum(0).tolist())
        tried = _decision(num_rows, fresh, cache.refresh_interval, keeps_features=cache.keeps_features)
        low, high = (low, middle) if trial.epoch_s(layers, tried) < plain_s else (middle, high)
    return cache.model_copy(update={"break_even_share": high})


def _decision(
    num_rows: tuple[int, ...], fresh: np.ndarray, refresh_interval: int, *, keeps_features: bool
) -> CacheDecision:
    return CacheDecision(
        refresh_interval=refresh_interval,
        keeps_features=keeps_features,
        num_rows=num_rows,
        fresh_counts=tuple(map(tuple, fresh.tolist())),
    )
