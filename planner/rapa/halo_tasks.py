"""What of an epoch depends on its halos, priced by the lowering itself: no second list of tasks can depart from it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Self

import numpy as np

from gnnplan.planner.costs import FLOAT_BYTES
from gnnplan.planner.joint_cache.decision import CacheDecision
from gnnplan.planner.lowering import FullBatchLowering
from gnnplan.planner.readers.cost import with_overhead_s
from gnnplan.planner.schedule import Category
from gnnplan.planner.steps import Program
from gnnplan.profiles.curves import Estimate

_HALO_OPS = ("aggregate", "exchange", "attend")


@dataclass
class HaloTasks(FullBatchLowering):
    """Adds up the seconds of every worker's tasks; exchanges are noted in `exchanges_bytes`, not priced."""

    busy_s: np.ndarray = field(init=False)  # float64 [W]

    def __post_init__(self) -> None:
        super().__post_init__()
        self.busy_s = np.zeros(len(self.shapes))

    def price(self) -> Self:
        """Goes through the program's steps, there and back; loss, reduction and optimizer know no halo."""
        for step in self.program.steps:
            self._forward(step)
        for step in reversed(self.program.steps):
            self._backward(step)
        return self

    def _each(self, key: str, estimate_of: Callable[[int], Estimate], category: Category = "compute") -> None:
        for worker in range(len(self.shapes)):
            self.busy_s[worker] += with_overhead_s(estimate_of(worker).seconds, self._cost(worker).profile)

    def _exchange(self, key: str, rows: np.ndarray, width: int, beside: Callable[[], None] | None = None) -> None:
        self.exchanges_bytes.append(rows * (width * FLOAT_BYTES))
        if beside:
            beside()

    def _meet(self, key: str) -> None:
        """Waiting for each other is nobody's work."""


def split_program(program: Program) -> tuple[Program, Program]:
    """(the steps that read halos, all others)."""
    halo = tuple(step for step in program.steps if step.op in _HALO_OPS)
    others = tuple(step for step in program.steps if step.op not in _HALO_OPS)
    return replace(program, steps=halo), replace(program, steps=others)


def cache_of_less(cache: CacheDecision, whole: np.ndarray, counts: np.ndarray) -> CacheDecision:
    """What a decision on a whole halo comes to on a smaller one: on every way the same share of the rows is kept.

    Args:
        whole, counts: int64 [W, W], rows that worker p sends to q, of the decision's halo and of the smaller one.
    """
    if not cache.keeps_any:
        return cache
    all_fresh, region = np.array(cache.fresh_counts), cache.region
    fresh = _scaled(all_fresh, whole, counts)
    num_rows = _scaled(np.array(cache.num_rows), (whole - all_fresh).sum(0), (counts - fresh).sum(0))
    if region is not None:
        handled = [each.sum(0) + each.sum(1) for each in (whole, counts)]
        written, sent = _scaled(np.array(region.written_rows), *handled), np.array(region.sent_counts)
        sent_counts = _rows_of(_scaled(sent, whole, counts))
        region = region.model_copy(update={"written_rows": tuple(written.tolist()), "sent_counts": sent_counts})
    changed = {"num_rows": tuple(num_rows.tolist()), "fresh_counts": _rows_of(fresh), "region": region}
    return cache.model_copy(update=changed)


def _scaled(part: np.ndarray, whole: np.ndarray, now: np.ndarray) -> np.ndarray:
    """As large a part of `now` as it was of the whole, rounded down."""
    return part * now // np.maximum(whole, 1)


def _rows_of(counts: np.ndarray) -> tuple[tuple[int, ...], ...]:
    return tuple(map(tuple, counts.tolist()))
