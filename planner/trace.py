"""The `Trace` contract: what ran when, predicted or measured, under the same task keys."""

from __future__ import annotations

from typing import ClassVar, Literal

import numpy as np
from pydantic import Field

from planner.schedule import Category
from profiles.contract import Contract, Document


class Span(Contract):
    """One task of one worker in one epoch; seconds from the start of that epoch on any worker."""

    task: str
    worker: int = Field(ge=0)
    epoch: int = Field(ge=0)
    category: Category
    start_s: float = Field(ge=0)
    end_s: float = Field(ge=0)
    unprofiled: bool = False


class Trace(Document):
    """Spans of a few epochs, and the figures of the whole run.

    Args:
        plan_fingerprint: the plan that was played.
        epoch_s: seconds of every timed epoch (one value in a predicted trace).
        peak_bytes: peak memory of each worker: resident bytes on CPU, allocated bytes on CUDA.
        sent_bytes: bytes each worker sent in one epoch, all-reduce left out.
        losses: of every epoch run (empty in a predicted trace).
        accuracy: `train`, `val`, `test` (share right, or micro-F1 for multi-label jobs).
        setup_s: seconds before the first epoch (loading, one-time exchange, precompute).
    """

    KIND: ClassVar[str] = "trace"

    origin: Literal["predicted", "measured"]
    plan_fingerprint: str
    num_workers: int = Field(ge=1)
    spans: tuple[Span, ...]
    epoch_s: tuple[float, ...] = Field(min_length=1)
    peak_bytes: tuple[int, ...]
    sent_bytes: tuple[int, ...] = ()
    losses: tuple[float, ...] = ()
    accuracy: dict[str, float] = Field(default_factory=dict)
    setup_s: float = 0.0

    @property
    def median_epoch_s(self) -> float:
        """Median seconds of an epoch."""
        return float(np.median(self.epoch_s))

    @property
    def epoch_spread_s(self) -> float:
        """Interquartile range of the epoch seconds."""
        low, high = np.percentile(self.epoch_s, [25, 75])
        return float(high - low)

    def category_s(self, category: Category) -> float:
        """Seconds of a category in one epoch: mean over workers, median over traced epochs."""
        totals: dict[int, float] = {}
        for span in self.spans:
            totals.setdefault(span.epoch, 0.0)
            if span.category == category:
                totals[span.epoch] += span.end_s - span.start_s
        return float(np.median(list(totals.values()))) / self.num_workers if totals else 0.0
