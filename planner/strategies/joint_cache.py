"""Which halo rows workers keep between epochs (CaPGNN's JACA, section 4.2): as many as fit, where that pays."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from planner.costs import FLOAT_BYTES
from planner.joint_cache.capacity import REGION_RESERVE_BYTES, RESERVE_BYTES, joint_capacities
from planner.joint_cache.decision import NO_CACHE, CacheDecision
from planner.joint_cache.region import decide_rows
from planner.program import LayerDecision

if TYPE_CHECKING:
    from planner.strategies.trial import Trial

_HALVINGS = 6  # of the shares from 0 to 1, in search of the break-even
_FITTINGS = 3  # tries to make room for what putting rows together takes


def choose_cache(trial: Trial, layers: tuple[LayerDecision, ...]) -> CacheDecision:
    """The largest cache that fits, on devices alone or in the hosts' memory too: the fastest, or none (the bypass).

    Every epoch of full-batch training reads the same rows, so the hit ratio of a run is known before it.
    """
    tiers = (False, True) if any(trial.problem.placement.region_bytes) else (False,)
    found = [largest_cache(trial, layers, with_regions=shared) for shared in tiers]
    fitting = [cache for cache in found if cache.keeps_any and trial.shortfall(layers, cache)[0] <= 0]
    if not fitting:
        return NO_CACHE
    return min([NO_CACHE, *fitting], key=lambda cache: trial.epoch_s(layers, cache))


def largest_cache(trial: Trial, layers: tuple[LayerDecision, ...], *, with_regions: bool = False) -> CacheDecision:
    """Algorithm 1's capacities under the job's pins, and what they leave to be sent in every epoch.

    Owners keep the last gradients of the rows that others keep, at most of all rows they send: taken off first. So is
    what a worker lacks when it puts kept and received rows together.

    Args:
        with_regions: hosts keep rows for their workers too.
    """
    pin, placement = trial.problem.job.pin, trial.problem.placement
    steps = [step for step in trial.program(layers).steps if step.op in ("aggregate", "exchange")]
    fixed = sum(step.in_width for step in steps if step.fixed) if pin.feature_cache else 0
    reused = sum(step.in_width for step in steps if not step.fixed) if pin.refresh_interval > 1 else 0
    if len(trial.shapes) == 1 or fixed + reused == 0:
        return NO_CACHE
    free = [
        worker.memory_bytes - need.peak_bytes - shape.num_sent * reused * FLOAT_BYTES
        for worker, need, shape in zip(placement.workers, trial.memory(layers), trial.shapes, strict=True)
    ]
    for _ in range(_FITTINGS):
        capacities = joint_capacities(
            trial.halo,
            placement.host_of,
            device_free_bytes=free,
            host_free_bytes=placement.region_bytes,
            device_reserve_bytes=RESERVE_BYTES,
            host_reserve_bytes=REGION_RESERVE_BYTES,
            vertex_bytes=(fixed + reused) * FLOAT_BYTES,
        )
        cache = decide_rows(
            trial.halo,
            capacities.device,
            placement.host_of,
            capacities.host if with_regions else (),
            refresh_interval=pin.refresh_interval if reused else 1,
            keeps_features=pin.feature_cache,
        )
        missing = [need.peak_bytes - w.memory_bytes for need, w in zip(trial.memory(layers, cache), placement.workers)]
        if max(missing) <= 0:
            break
        free = [room - max(lack, 0) for room, lack in zip(free, missing)]
    return cache


def with_break_even(trial: Trial, layers: tuple[LayerDecision, ...], cache: CacheDecision) -> CacheDecision:
    """The decision with the kept share of the halo rows from which on an epoch is shorter than without it, to 1/64.

    Kept on devices: below, putting kept and fresh rows together costs more than sending all; the share of rows read
    that are hits is (r - 1) / r of it.
    """
    if not any(cache.num_rows):
        return cache
    plain_s, sent = trial.epoch_s(layers), trial.halo.send_counts()
    low, high = 0.0, 1.0
    for _ in range(_HALVINGS):
        middle = (low + high) / 2
        fresh = np.round(sent * (1 - middle)).astype(np.int64)
        tried = CacheDecision(
            refresh_interval=cache.refresh_interval,
            keeps_features=cache.keeps_features,
            num_rows=tuple((sent - fresh).sum(0).tolist()),
            fresh_counts=tuple(map(tuple, fresh.tolist())),
        )
        low, high = (low, middle) if trial.epoch_s(layers, tried) < plain_s else (middle, high)
    return cache.model_copy(update={"break_even_share": high})
