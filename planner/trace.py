"""The `Trace` contract: what ran when, predicted or measured, under the same task keys."""

from __future__ import annotations

from collections import defaultdict
from typing import Annotated, ClassVar, Literal, Self

import numpy as np
from pydantic import AfterValidator, Field, model_validator

from gnnplan.planner.schedule import Category
from gnnplan.profiles.contract import Contract, Document
from gnnplan.profiles.limits import MAX_EPOCHS, MAX_WORKERS, Bytes, Epochs, Seconds, SomeSeconds, Workers


def _takes_time(epoch_s: tuple[float, ...]) -> tuple[float, ...]:
    """Some epochs may end together with the one before, where workers go on without others; not all of them."""
    if not any(epoch_s):
        raise ValueError("no epoch took any time")
    return epoch_s


class Span(Contract):
    """One task of one worker in one epoch; seconds from the start of that epoch on any worker."""

    task: str
    worker: int = Field(ge=0, lt=MAX_WORKERS)
    epoch: int = Field(ge=0, lt=MAX_EPOCHS)
    category: Category
    start_s: Seconds
    end_s: Seconds
    unprofiled: bool = False

    @model_validator(mode="after")
    def _ends_after_it_begins(self) -> Self:
        if self.end_s < self.start_s:
            raise ValueError(f"end_s {self.end_s} must not be before start_s {self.start_s}")
        return self


class Percentiles(Contract):
    """Seconds that half of all epochs are within, and 95%, where tasks fluctuate as they were measured to."""

    p50_s: SomeSeconds
    p95_s: SomeSeconds


class Trace(Document):
    """Spans of a few epochs, and the figures of the whole run.

    Args:
        plan_fingerprint: the plan that was played.
        epoch_s: seconds of every timed epoch, from the last worker's end of the one before to that of its own (in a
            predicted trace of one cycle, no task fluctuating).
        fluctuating: of a predicted trace, epochs in which they do (None: not simulated).
        refresh_interval: r, epochs after which the same kinds of epochs come again. Where halo embeddings are reused,
            they are sent in epochs that r divides.
        peak_bytes: peak memory of each worker: resident bytes on CPU, allocated bytes on CUDA.
        sent_bytes: bytes each worker sent in one epoch that reuses nothing, all-reduce left out.
        reuse_sent_bytes: in the mean of those that r does not divide (empty where there are none).
        losses: of every epoch run, first those of a run that this one goes on from (empty in a predicted trace).
        accuracy: `train`, `val`, `test`, by the metric.
        metric: what of: `accuracy`, or another that the job names (`gnnplan.planner.metrics`).
        setup_s: seconds before the first epoch (loading, one-time exchange, precompute).
        stolen_share: of the processor time of the machines meanwhile, given to others by the hypervisor: of the
            machine where it is largest.
        others_share: of the processor time of the machines meanwhile, used by other programs: of the machine where it
            is largest.
        num_members: workers that took part in each epoch's step, under partial reduce.
        oldest: epochs, age of the oldest halo rows or gradients used in each epoch, under partial reduce.
    """

    KIND: ClassVar[str] = "trace"

    origin: Literal["predicted", "measured"]
    plan_fingerprint: str
    num_workers: Workers
    spans: tuple[Span, ...]
    epoch_s: Annotated[tuple[Seconds, ...], AfterValidator(_takes_time)] = Field(min_length=1, max_length=MAX_EPOCHS)
    fluctuating: Percentiles | None = None
    peak_bytes: tuple[Bytes, ...]
    sent_bytes: tuple[Bytes, ...] = ()
    reuse_sent_bytes: tuple[Bytes, ...] = ()
    refresh_interval: Epochs = 1
    losses: tuple[float, ...] = ()
    accuracy: dict[str, float] = Field(default_factory=dict)
    metric: str = "accuracy"
    setup_s: float = 0.0
    stolen_share: float = 0.0
    others_share: float = 0.0
    num_members: tuple[int, ...] = ()
    oldest: tuple[int, ...] = ()

    @model_validator(mode="after")
    def _is_of_its_workers(self) -> Self:
        if any(span.worker >= self.num_workers for span in self.spans):
            raise ValueError(f"spans: worker must be 0 to {self.num_workers - 1}")
        for name in ("peak_bytes", "sent_bytes", "reuse_sent_bytes"):
            found = getattr(self, name)
            if len(found) != self.num_workers and (found or name == "peak_bytes"):
                raise ValueError(f"{name} must have {self.num_workers} workers")
        return self

    @property
    def median_epoch_s(self) -> float:
        """Median seconds of an epoch; with a refresh interval, of means over whole intervals."""
        return float(np.median(self._interval_means_s))

    @property
    def expected_epoch_s(self) -> float:
        """The median epoch, in a predicted trace of epochs that fluctuate where these were simulated.

        Whoever exchanges rows waits for the one that comes last, which is rarely one that takes its median time: so
        it is more than the epoch in which all do.
        """
        return self.fluctuating.p50_s if self.fluctuating else self.median_epoch_s

    @property
    def mean_epoch_s(self) -> float:
        """Mean seconds of an epoch: what a run under weather takes an epoch."""
        return float(np.mean(self.epoch_s))

    @property
    def p95_epoch_s(self) -> float:
        """Seconds that one in twenty epochs takes longer than."""
        return float(np.percentile(self.epoch_s, 95))

    @property
    def epoch_spread_s(self) -> float:
        """Interquartile range of what the median is taken of."""
        low, high = np.percentile(self._interval_means_s, [25, 75])
        return float(high - low)

    @property
    def epoch_range_s(self) -> tuple[float, float]:
        """Seconds that one in twenty epochs is shorter than, and one in twenty longer."""
        low, high = np.percentile(self._interval_means_s, [5, 95])
        return float(low), float(high)

    @property
    def _interval_means_s(self) -> np.ndarray:
        # Any r epochs in a row hold one refresh; fewer than r were timed: what there is.
        length = min(self.refresh_interval, len(self.epoch_s))
        whole = len(self.epoch_s) // length * length
        return np.array(self.epoch_s[:whole]).reshape(-1, length).mean(1)

    def workers_traced(self) -> dict[int, int]:
        """How many workers have tasks in each traced epoch: under partial reduce some may be missing from it."""
        workers: dict[int, set[int]] = defaultdict(set)
        for span in self.spans:
            workers[span.epoch].add(span.worker)
        return {epoch: len(them) for epoch, them in workers.items()}

    def category_s(self, category: Category) -> float:
        """Seconds of a category in one epoch: mean over workers that are in it, median over traced epochs.

        With a refresh interval, of refreshing and of reusing epochs apart, each by its share.
        """
        num_workers = self.workers_traced()
        totals = dict.fromkeys(num_workers, 0.0)
        for span in self.spans:
            if span.category == category:
                totals[span.epoch] += span.end_s - span.start_s
        if not totals:
            return 0.0
        r = self.refresh_interval
        means_s = {epoch: total_s / num_workers[epoch] for epoch, total_s in totals.items()}
        kinds = [[s for epoch, s in means_s.items() if (epoch % r == 0) == refresh] for refresh in (True, False)]
        shares = [share for share, kind in zip((1, r - 1), kinds) if kind]
        return float(np.average([np.median(kind) for kind in kinds if kind], weights=shares))
