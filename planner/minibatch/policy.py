"""The dual-buffer policy: what CPU, PCIe and GPU do next, decided from counts alone.

The simulator asks it on a virtual clock and the executor on a real one, so what was simulated is
what runs. It knows no seconds: a stage that takes longer than it should only delays the next question.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal

Action = Literal["gpu_batch", "train", "transfer"]


@dataclass(frozen=True)
class Buffers:
    """How the policy is set; a buffer's slots are those of MorphGL's equation 4.

    Args:
        cpu_slots: batches in pinned memory, from the begin of batching to the begin of transfer (`cbs`);
            0: the GPU makes all.
        gpu_slots: batches in device memory, from the begin of transfer or GPU batching to the begin of
            training (`gbs`).
        num_gpu_batches: how many of an epoch's batches the GPU makes; None: each side takes the next one
            left when it can.
        phased: fill both buffers, then empty both (MorphGL, algorithm 1); else transfer as soon as `hold`
            batches are ready to be trained meanwhile.
        hold: see `phased`.
    """

    cpu_slots: int
    gpu_slots: int
    num_gpu_batches: int | None = None
    phased: bool = False
    hold: int = 1

    def __post_init__(self) -> None:
        assert min(self.gpu_slots, self.hold) >= 1, self
        assert min(self.cpu_slots, self.num_gpu_batches or 0) >= 0, self

    def for_threads(self, num_cpu_threads: int) -> Buffers:
        """These with the CPU's batches made by so many threads at once.

        Each has the slot of the batch it is making, and those of the plan hold what waits, beside one in work.
        """
        return replace(self, cpu_slots=self.cpu_slots + num_cpu_threads - 1) if self.cpu_slots else self

    def both_make(self, num_batches: int) -> bool:
        """Whether CPU and GPU may each make some of so many batches."""
        return self.cpu_slots > 0 and (self.num_gpu_batches is None or 0 < self.num_gpu_batches < num_batches)


@dataclass
class DualBufferPolicy:
    """Counts of an epoch of `num_batches` under way, and the decisions they lead to.

    The player tells what begins (`begin_*`, where `next_actions` or `cpu_may_begin` allows it) and what
    ends (`end_*`). Batches are given out in order; they are trained in the order they got ready.
    """

    num_batches: int
    buffers: Buffers
    num_given_out: int = 0
    num_gpu_made: int = 0
    cpu_making: int = 0
    cpu_ready: int = 0
    transferring: bool = False
    gpu_making: bool = False
    gpu_ready: int = 0
    training: bool = False
    num_trained: int = 0
    _emptying: bool = False

    @property
    def is_over(self) -> bool:
        """Whether every batch has been trained."""
        return self.num_trained == self.num_batches

    @property
    def cpu_is_blocked(self) -> bool:
        """Whether batches are left for the CPU and only a slot is missing."""
        return self._left_for_cpu > 0 and self.cpu_making + self.cpu_ready >= self.buffers.cpu_slots > 0

    def cpu_may_begin(self) -> bool:
        """Whether the CPU may begin a batch."""
        return self._left_for_cpu > 0 and self.cpu_making + self.cpu_ready < self.buffers.cpu_slots

    def next_actions(self) -> list[Action]:
        """What GPU and PCIe begin now, in this order; nothing: wait until a stage ends."""
        if self.buffers.phased:
            self._turn_phase()
        if self._may_gpu_batch() and self._prefers_gpu_batch():
            return ["gpu_batch"]
        trains = self._may_train()
        actions: list[Action] = ["train"] if trains else []
        if self._may_transfer(slots_freed=int(trains)):
            actions.append("transfer")
        return actions

    def begin_cpu_batch(self) -> int:
        """Index of the batch that the CPU begins."""
        assert self.cpu_may_begin()
        self.cpu_making += 1
        return self._give_out()

    def end_cpu_batch(self) -> None:
        """It lies in pinned memory."""
        self.cpu_making -= 1
        self.cpu_ready += 1

    def begin_gpu_batch(self) -> int:
        """Index of the batch that the GPU begins."""
        assert self._may_gpu_batch()
        self.gpu_making = True
        self.num_gpu_made += 1
        return self._give_out()

    def end_gpu_batch(self) -> None:
        """It is ready to be trained."""
        self.gpu_making = False
        self.gpu_ready += 1

    def begin_transfer(self) -> None:
        """The oldest batch in pinned memory is copied."""
        assert self._may_transfer(slots_freed=0)
        self.cpu_ready -= 1
        self.transferring = True

    def end_transfer(self) -> None:
        """It is ready to be trained."""
        self.transferring = False
        self.gpu_ready += 1

    def begin_train(self) -> None:
        """The oldest batch in device memory is trained."""
        assert self.gpu_ready > 0
        assert not self._gpu_is_busy
        self.gpu_ready -= 1
        self.training = True

    def end_train(self) -> None:
        """One more is trained."""
        self.training = False
        self.num_trained += 1

    @property
    def _left_for_gpu(self) -> int:
        if self.buffers.num_gpu_batches is None:
            return self.num_batches - self.num_given_out
        return min(self.buffers.num_gpu_batches, self.num_batches) - self.num_gpu_made

    @property
    def _left_for_cpu(self) -> int:
        left = self.num_batches - self.num_given_out
        return left if self.buffers.num_gpu_batches is None else left - self._left_for_gpu

    @property
    def _gpu_is_busy(self) -> bool:
        return self.gpu_making or self.training

    @property
    def _free_gpu_slots(self) -> int:
        return self.buffers.gpu_slots - self.transferring - self.gpu_making - self.gpu_ready

    def _give_out(self) -> int:
        self.num_given_out += 1
        return self.num_given_out - 1

    def _turn_phase(self) -> None:
        """Empties once both buffers are full (or nothing more can fill them), fills once the GPU's is empty."""
        cpu_full = self.cpu_ready == self.buffers.cpu_slots or self._left_for_cpu + self.cpu_making == 0
        gpu_full = self._free_gpu_slots == 0 or self._left_for_gpu == 0
        under_way = self.gpu_making or self.transferring or self.gpu_ready > 0
        if not self._emptying:
            self._emptying = cpu_full and gpu_full and not self.gpu_making
        elif not under_way and self.cpu_ready == 0:
            self._emptying = self._left_for_cpu + self._left_for_gpu + self.cpu_making == 0

    def _may_gpu_batch(self) -> bool:
        """Never beside a transfer: PCIe bounds both."""
        return self._left_for_gpu > 0 and self._free_gpu_slots > 0 and not (self._gpu_is_busy or self.transferring)

    def _prefers_gpu_batch(self) -> bool:
        if self.buffers.phased:
            return not self._emptying
        return self.cpu_ready == 0 or self.gpu_ready < self.buffers.hold

    def _may_train(self) -> bool:
        """While the buffers fill, only where the GPU's is full and the GPU would stand still."""
        waits = self.buffers.phased and not self._emptying and self._free_gpu_slots > 0 and self._left_for_gpu > 0
        return self.gpu_ready > 0 and not self._gpu_is_busy and not waits

    def _may_transfer(self, *, slots_freed: int) -> bool:
        waits = self.buffers.phased and not self._emptying
        has_slot = self._free_gpu_slots + slots_freed > 0
        return self.cpu_ready > 0 and has_slot and not (self.transferring or self.gpu_making or waits)
