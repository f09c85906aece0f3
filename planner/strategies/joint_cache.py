"""Which halo rows workers keep between epochs (CaPGNN's JACA, section 4.2): as many as fit, where that pays."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from gnnplan.planner.costs import FLOAT_BYTES
from gnnplan.planner.joint_cache.capacity import REGION_RESERVE_BYTES, RESERVE_BYTES, joint_capacities
from gnnplan.planner.joint_cache.decision import NO_CACHE, CacheDecision
from gnnplan.planner.joint_cache.region import decide_rows
from gnnplan.planner.steps import LayerDecision

if TYPE_CHECKING:
    from gnnplan.planner.strategies.trial import Trial

_HALVINGS = 6  # of what may be kept, in search of what fits, and of the shares from 0 to 1, of the break-even
_FITTINGS = 3  # tries to make room for what putting rows together takes


def choose_cache(trial: Trial, layers: tuple[LayerDecision, ...]) -> CacheDecision:
    """The largest cache that fits, on devices alone or in the hosts' memory too: the fastest, or none (the bypass).

    Every epoch of full-batch training reads the same rows, so the hit ratio of a run is known before it.
    """
    tiers = (False, True) if any(trial.problem.placement.region_bytes) else (False,)
    found = [largest_cache(trial, layers, with_regions=shared) for shared in tiers]
    fitting = [cache for cache in found if cache.keeps_any]
    if not fitting:
        return NO_CACHE
    return min([NO_CACHE, *fitting], key=lambda cache: trial.epoch_s(layers, cache))


def largest_cache(trial: Trial, layers: tuple[LayerDecision, ...], *, with_regions: bool = False) -> CacheDecision:
    """What algorithm 1's capacities leave room for under the job's pins, with all that keeping it takes; or none.

    Args:
        with_regions: hosts keep rows for their workers too.
    """
    pin = trial.problem.job.pin
    steps = [step for step in trial.program(layers).steps if step.op in ("aggregate", "exchange")]
    fixed = sum(step.in_width for step in steps if step.fixed) if pin.feature_cache else 0
    reused = sum(step.in_width for step in steps if not step.fixed) if pin.refresh_interval > 1 else 0
    if len(trial.shapes) == 1 or fixed + reused == 0:
        return NO_CACHE
    return _Fitting(trial, layers, with_regions, fixed * FLOAT_BYTES, reused * FLOAT_BYTES).largest()


@dataclass(frozen=True)
class _Fitting:
    """Looks for the largest cache that fits; room is what workers may fill with rows, in bytes [W].

    Args:
        fixed_bytes, reused_bytes: of a vertex's rows, of those that never change and of those that epochs reuse.
    """

    trial: Trial
    layers: tuple[LayerDecision, ...]
    with_regions: bool
    fixed_bytes: int
    reused_bytes: int

    def largest(self) -> CacheDecision:
        """All that algorithm 1 has room for; where that does not fit, halved between it and what is sure to fit.

        Keeping takes more than the rows: owners keep the gradients of rows that others keep, and kept and received
        rows are put together. How much depends on what all workers keep, so it is found by trying.
        """
        free = -self._missing_bytes(NO_CACHE)
        if free.min() < 0:
            return NO_CACHE
        spare = free - RESERVE_BYTES
        room = self._as_room(spare)
        best = self._decide(room)
        if self._missing_bytes(best).max() <= 0:
            return best
        sure, best = self._sure(spare)
        for _ in range(_HALVINGS if room.any() else 0):
            middle = (sure + room) // 2
            cache = self._decide(middle)
            if self._missing_bytes(cache).max() <= 0:
                sure, best = middle, cache
            else:
                room = middle
        return best

    def _sure(self, spare: np.ndarray) -> tuple[np.ndarray, CacheDecision]:
        """(room that is sure to fit, its cache): all but what the gradients of all rows sent take, and what lacks then.

        Where a worker still lacks something, for gradients of rows that others keep, all keep less.
        """
        less = self._as_room(spare - [shape.num_sent * self.reused_bytes for shape in self.trial.shapes])
        for attempt in range(_FITTINGS + _HALVINGS):
            cache = self._decide(less)
            missing = self._missing_bytes(cache)
            if missing.max() <= 0:
                return less, cache
            if not less.any():
                break
            less = self._as_room(less - missing.clip(0)) if attempt < _FITTINGS else less // 2
        return np.zeros_like(spare), NO_CACHE

    def _as_room(self, num_bytes: np.ndarray) -> np.ndarray:
        """No less than nothing, and no more than the whole halo takes."""
        vertex_bytes = self.fixed_bytes + self.reused_bytes
        return num_bytes.clip(0, [shape.num_halo * vertex_bytes for shape in self.trial.shapes])

    def _missing_bytes(self, cache: CacheDecision) -> np.ndarray:
        """int64 [W]: what each worker lacks; one that keeps rows on its device leaves the reserve free."""
        workers, needs = self.trial.problem.placement.workers, self.trial.memory(self.layers, cache)
        reserves = [RESERVE_BYTES if rows else 0 for rows in cache.num_rows or (0,) * len(workers)]
        return np.array([n.peak_bytes + r - w.memory_bytes for n, r, w in zip(needs, reserves, workers, strict=True)])

    def _decide(self, room: np.ndarray) -> CacheDecision:
        """The rows that fill the workers' room, and the hosts' regions."""
        pin, placement = self.trial.problem.job.pin, self.trial.problem.placement
        capacities = joint_capacities(
            self.trial.halo,
            placement.host_of,
            device_free_bytes=(room + RESERVE_BYTES).tolist(),
            host_free_bytes=placement.region_bytes,
            device_reserve_bytes=RESERVE_BYTES,
            host_reserve_bytes=REGION_RESERVE_BYTES,
            vertex_bytes=self.fixed_bytes + self.reused_bytes,
        )
        return decide_rows(
            self.trial.halo,
            capacities.device,
            placement.host_of,
            capacities.host if self.with_regions else (),
            refresh_interval=pin.refresh_interval if self.reused_bytes else 1,
            keeps_features=pin.feature_cache,
        )


def with_break_even(trial: Trial, layers: tuple[LayerDecision, ...], cache: CacheDecision) -> CacheDecision:
    """The decision with the kept share of the halo rows from which on an epoch is shorter than without it, to 1/64.

    Kept on devices, the same share by each and those of the highest overlap ratio, as they would be: below, putting
    kept and fresh rows together costs more than sending all. The share of rows read that are hits is (r - 1) / r of it.
    """
    if not any(cache.num_rows):
        return cache
    plain_s = trial.epoch_s(layers)
    low, high = 0.0, 1.0
    for _ in range(_HALVINGS):
        middle = (low + high) / 2
        tried = decide_rows(
            trial.halo,
            [round(middle * len(block.halo)) for block in trial.halo.blocks],
            refresh_interval=cache.refresh_interval,
            keeps_features=cache.keeps_features,
        )
        low, high = (low, middle) if trial.epoch_s(layers, tried) < plain_s else (middle, high)
    return cache.model_copy(update={"break_even_share": high})
