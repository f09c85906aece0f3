"""An epoch of mini-batches on a virtual clock, under the policy that the executor follows."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

from gnnplan.planner.minibatch.policy import Buffers, DualBufferPolicy
from gnnplan.planner.minibatch.stages import StageTimes

_NS = 1e9
_LOOK_EVERY = 64  # events, at how long the epoch takes at least


@dataclass(frozen=True)
class Played:
    """One simulated epoch.

    Args:
        epoch_s: until the last batch is trained.
        cpu_busy_s, pcie_busy_s, gpu_busy_s: of it, at work; the CPU's threads on average.
        cpu_blocked_s: the CPU had batches to make and no slot: the GPU was too slow.
        gpu_waiting_s: the GPU had nothing to do and batches were left: the CPU was too slow.
        num_gpu_made: batches made by the GPU.
    """

    epoch_s: float
    cpu_busy_s: float
    pcie_busy_s: float
    gpu_busy_s: float
    cpu_blocked_s: float
    gpu_waiting_s: float
    num_gpu_made: int


def simulate(times: StageTimes, buffers: Buffers, num_batches: int, num_cpu_threads: int = 1) -> Played:
    """Plays an epoch in integer nanoseconds: the same input always gives the same output.

    Args:
        num_cpu_threads: that make the CPU's batches, each one in `num_cpu_threads` times `cpu_batching_s`: the
            first batch takes that long to come, and the last ones come together.
    """
    played = simulate_within(math.inf, times, buffers, num_batches, num_cpu_threads)
    assert played is not None
    return played


def simulate_within(
    limit_s: float, times: StageTimes, buffers: Buffers, num_batches: int, num_cpu_threads: int = 1
) -> Played | None:
    """As `simulate`; None where it shows before the end that the epoch takes longer than `limit_s`."""
    policy = DualBufferPolicy(num_batches, buffers.for_threads(num_cpu_threads))
    return Player(stage_seconds(times, buffers, num_batches, num_cpu_threads), policy, num_cpu_threads).play(limit_s)


def stage_seconds(times: StageTimes, buffers: Buffers, num_batches: int, num_cpu_threads: int) -> dict[str, float]:
    """Of a batch in every stage, as the policy calls them; of `cpu_batch` one thread's."""
    times = times.where_both_make if buffers.both_make(num_batches) else times
    is_gpu_only = not buffers.cpu_slots or (buffers.num_gpu_batches or 0) >= num_batches  # settled before the epoch
    return {
        "cpu_batch": times.cpu_batching_s * num_cpu_threads,
        "gpu_batch": times.gpu_batching_s,
        "transfer": times.dma_s,
        "train": times.gpu_only_model_s if is_gpu_only else times.model_s,
    }


class Player:
    """Plays an epoch on a virtual clock; what begins next the policy says, as it does to the executor.

    Args:
        seconds: of a batch in every stage; of `cpu_batch` one thread's.
    """

    def __init__(self, seconds: Mapping[str, float], policy: DualBufferPolicy, num_cpu_threads: int) -> None:
        self.policy, self.num_cpu_threads = policy, num_cpu_threads
        self.length_ns = {stage: round(each * _NS) for stage, each in seconds.items()}
        self.idle_threads = list(range(num_cpu_threads))
        self.end_ns: dict[tuple[str, int], int] = {}  # of the stages under way, by stage and thread
        self.busy_ns = dict.fromkeys(self.length_ns, 0)
        self.cpu_blocked_ns = self.gpu_waiting_ns = 0  # the CPU's: of all threads together
        num_gpu, num_cpu = _split(policy)
        # Stages that have not begun; at least so many.
        self.left = {"cpu_batch": num_cpu, "transfer": num_cpu, "gpu_batch": num_gpu, "train": policy.num_batches}

    def play(self, limit_s: float = math.inf) -> Played | None:
        """The epoch; None where it shows before its end that it takes longer than `limit_s`."""
        now_ns = num_events = 0
        while not self.policy.is_over:
            self._begin(now_ns)
            if num_events % _LOOK_EVERY == 0 and self._least_ns(now_ns) / _NS > limit_s:
                return None
            num_events += 1
            assert self.end_ns, f"nothing is under way and nothing may begin: {self.policy}"
            next_ns = min(self.end_ns.values())
            if self.policy.cpu_is_blocked:
                self.cpu_blocked_ns += len(self.idle_threads) * (next_ns - now_ns)
            if ("train", 0) not in self.end_ns and ("gpu_batch", 0) not in self.end_ns:
                self.gpu_waiting_ns += next_ns - now_ns
            now_ns = next_ns
            self._end(now_ns)
        busy = {stage: spent_ns / _NS for stage, spent_ns in self.busy_ns.items()}
        return Played(
            epoch_s=now_ns / _NS,
            cpu_busy_s=busy["cpu_batch"] / self.num_cpu_threads,
            pcie_busy_s=busy["transfer"] + busy["gpu_batch"],
            gpu_busy_s=busy["train"] + busy["gpu_batch"],
            cpu_blocked_s=self.cpu_blocked_ns / _NS / self.num_cpu_threads,
            gpu_waiting_s=self.gpu_waiting_ns / _NS,
            num_gpu_made=self.policy.num_gpu_made,
        )

    def _least_ns(self, now_ns: int) -> int:
        """The earliest end of the epoch: GPU and PCIe have one stage at a time, the CPU one a thread."""

        def free_ns(*stages: str) -> int:
            return max(now_ns, *(self.end_ns.get((stage, 0), 0) for stage in stages))

        def left_ns(*stages: str) -> int:
            return sum(self.left[stage] * self.length_ns[stage] for stage in stages)

        rounds_left = -(-self.left["cpu_batch"] // self.num_cpu_threads)
        return max(
            free_ns("train", "gpu_batch") + left_ns("train", "gpu_batch"),
            free_ns("transfer", "gpu_batch") + left_ns("transfer", "gpu_batch"),
            now_ns + rounds_left * self.length_ns["cpu_batch"],
        )

    def _begin(self, now_ns: int) -> None:
        self._begin_cpu_batches(now_ns)
        for action in self.policy.next_actions():
            getattr(self.policy, f"begin_{action}")()
            self.run(action, 0, now_ns)
        self._begin_cpu_batches(now_ns)  # into the slot that a transfer has freed

    def _begin_cpu_batches(self, now_ns: int) -> None:
        while self.idle_threads and self.policy.cpu_may_begin():
            self.policy.begin_cpu_batch()
            self.run("cpu_batch", self.idle_threads.pop(), now_ns)

    def run(self, stage: str, thread: int, now_ns: int) -> None:
        """A stage begins; `thread` is one of those that make the CPU's batches."""
        self.end_ns[stage, thread] = now_ns + self.length_ns[stage]
        self.busy_ns[stage] += self.length_ns[stage]
        self.left[stage] = max(0, self.left[stage] - 1)

    def _end(self, now_ns: int) -> None:
        for stage, thread in [lane for lane, end_ns in self.end_ns.items() if end_ns == now_ns]:
            del self.end_ns[stage, thread]
            self.end(stage, thread, now_ns)

    def end(self, stage: str, thread: int, now_ns: int) -> None:
        """A stage has ended."""
        getattr(self.policy, f"end_{stage}")()
        if stage == "cpu_batch":
            self.idle_threads.append(thread)


def _split(policy: DualBufferPolicy) -> tuple[int, int]:
    """How many batches the GPU makes, and how many the CPU, as far as that is settled before the epoch."""
    num_gpu = policy.buffers.num_gpu_batches
    if num_gpu is None:
        return 0, 0
    num_gpu = min(num_gpu, policy.num_batches)
    return num_gpu, policy.num_batches - num_gpu
