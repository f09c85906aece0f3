"""Plays an epoch of mini-batches on real devices, asking the policy that the simulator asks."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Protocol

from gnnplan.planner.minibatch.policy import Buffers, DualBufferPolicy
from gnnplan.profiles.errors import UserError
from gnnplan.runtime.mini_batch.lanes import Ended, Lanes


class Stages(Protocol):
    """What the stages of a mini-batch do; each returns when its device has done it.

    A batch is a pure function of (epoch, index), whoever makes it. Batches of the CPU are made in several
    threads at once where the executor has them.

    Args:
        is_one_memory: host and device have the same memory, so a transfer moves nothing.
    """

    is_one_memory: bool

    def cpu_batch(self, epoch: int, index: int) -> Any:
        """The batch in host memory."""

    def transfer(self, batch: Any) -> Any:
        """The same batch in device memory."""

    def gpu_batch(self, epoch: int, index: int) -> Any:
        """The batch, made in device memory."""

    def train(self, batch: Any) -> float:
        """One training step; returns the loss."""


class Renumbered:
    """Stages whose batch number `i` is number `number_of(i)` of others."""

    def __init__(self, stages: Stages, number_of: Callable[[int], int]) -> None:
        self._stages, self._number_of = stages, number_of
        self.transfer, self.train = stages.transfer, stages.train
        self.is_one_memory = stages.is_one_memory

    def cpu_batch(self, epoch: int, index: int) -> Any:
        """As `Stages`."""
        return self._stages.cpu_batch(epoch, self._number_of(index))

    def gpu_batch(self, epoch: int, index: int) -> Any:
        """As `Stages`."""
        return self._stages.gpu_batch(epoch, self._number_of(index))


def coming_again(stages: Stages, num_distinct: int) -> Renumbered:
    """Stages for any number of batches: where there are only `num_distinct`, these come again.

    Raises:
        UserError: there are none.
    """
    if num_distinct < 1:
        raise UserError("there is no batch to train: the loader drops its last one, and has no other; lower batch_size")
    return Renumbered(stages, lambda index: index % num_distinct)


@dataclass(frozen=True)
class StageSpan:
    """When a stage of a batch ran, seconds from the epoch's start."""

    stage: str
    batch: int
    start_s: float
    end_s: float


@dataclass
class Epoch:
    """What an epoch did.

    Args:
        order: indices of batches as they were trained.
        losses: one each.
        made_by_gpu: indices of those the GPU made.
        begun_s: on the monotonic clock; spans count from there.
    """

    order: list[int] = field(default_factory=list)
    losses: list[float] = field(default_factory=list)
    made_by_gpu: list[int] = field(default_factory=list)
    spans: list[StageSpan] = field(default_factory=list)
    begun_s: float = 0.0

    def mean_s(self, stage: str) -> float | None:
        """Mean seconds of a stage; None where it did not run."""
        seconds = [span.end_s - span.start_s for span in self.spans if span.stage == stage]
        return sum(seconds) / len(seconds) if seconds else None


def run_epoch(
    stages: Stages,
    buffers: Buffers,
    num_batches: int,
    epoch: int,
    *,
    num_cpu_threads: int = 1,
    timeout_s: float = 300.0,
) -> Epoch:
    """Trains every batch of an epoch once.

    Args:
        buffers: of a CPU that makes one batch after another (`Buffers.for_threads`).

    Raises:
        StageFailedError: a stage raised, or none ended within `timeout_s`; the others are stopped.
    """
    begun_s = time.monotonic()
    makers = [f"CPU {thread}" for thread in range(num_cpu_threads)]
    with Lanes((*makers, "PCIe", "GPU"), timeout_s) as lanes:
        policy = DualBufferPolicy(num_batches, buffers.for_threads(num_cpu_threads))
        return _EpochUnderWay(stages, policy, epoch, lanes, makers, begun_s).run()


class _EpochUnderWay:
    def __init__(
        self,
        stages: Stages,
        policy: DualBufferPolicy,
        epoch: int,
        lanes: Lanes,
        idle_makers: list[str],
        begun_s: float,
    ) -> None:
        self.stages, self.policy, self.epoch, self.lanes = stages, policy, epoch, lanes
        self.idle_makers, self.begun_s = idle_makers, begun_s
        self.maker_of: dict[int, str] = {}
        self.in_host: deque[tuple[int, Any]] = deque()
        self.on_device: deque[tuple[int, Any]] = deque()
        self.done = Epoch(begun_s=begun_s)

    def run(self) -> Epoch:
        while not self.policy.is_over:
            self._begin_cpu_batches()
            for action in self.policy.next_actions():
                getattr(self, f"_begin_{action}")()
            self._begin_cpu_batches()  # into the slot that a transfer has freed
            self._settle(self.lanes.wait())
        return self.done

    def _begin_cpu_batches(self) -> None:
        while self.idle_makers and self.policy.cpu_may_begin():
            index = self.policy.begin_cpu_batch()
            self.maker_of[index] = self.idle_makers.pop()
            self._begin_making(self.maker_of[index], "cpu_batch", index)

    def _begin_making(self, lane: str, stage: str, index: int) -> None:
        make = getattr(self.stages, stage)
        self.lanes.begin(lane, stage, index, lambda: make(self.epoch, index))

    def _begin_gpu_batch(self) -> None:
        index = self.policy.begin_gpu_batch()
        self.done.made_by_gpu.append(index)
        self._begin_making("GPU", "gpu_batch", index)

    def _begin_transfer(self) -> None:
        self.policy.begin_transfer()
        index, batch = self.in_host.popleft()
        if self.stages.is_one_memory:
            self.lanes.at_once("transfer", index, lambda: self.stages.transfer(batch))
        else:
            self.lanes.begin("PCIe", "transfer", index, lambda: self.stages.transfer(batch))

    def _begin_train(self) -> None:
        self.policy.begin_train()
        index, batch = self.on_device.popleft()
        self.done.order.append(index)
        self.lanes.begin("GPU", "train", index, lambda: self.stages.train(batch))

    def _settle(self, ended: Ended) -> None:
        start_s, end_s = ended.start_s - self.begun_s, ended.end_s - self.begun_s
        self.done.spans.append(StageSpan(ended.stage, ended.batch, start_s, end_s))
        getattr(self.policy, f"end_{ended.stage}")()
        if ended.stage == "cpu_batch":
            self.idle_makers.append(self.maker_of.pop(ended.batch))
            self.in_host.append((ended.batch, ended.result))
        elif ended.stage == "train":
            assert isinstance(ended.result, float)
            self.done.losses.append(ended.result)
        else:
            self.on_device.append((ended.batch, ended.result))
