"""Which batches the CPU makes and which the GPU, and with what buffers: found by simulation, judged by a bound."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace

from planner.minibatch.bound import EpochBound, epoch_bound, relaxed_ratio
from planner.minibatch.policy import Buffers
from planner.minibatch.simulate import Played, simulate, simulate_within
from planner.minibatch.stages import StageTimes

_PAPER_GPU_SLOTS = 10  # MorphGL, section 5.1
_NEIGHBOURS = 6  # splits tried on both sides of the bound's own
_TRY_ALL_SPLITS = 32  # batches up to which every split is tried
_HOLDS = (1, 2, 3)  # beyond which many batches leave nothing to gain
_AS_GOOD = 1.001

_Play = Callable[[Buffers, float], Played | None]


@dataclass(frozen=True)
class Dispatch:
    """A plan for an epoch of `num_batches`.

    Args:
        buffers: None: everything is on the device, nothing is batched over PCIe.
        epoch_s: simulated.
        bound: of any plan that batches over PCIe; `gap` is how far above it this one is.
    """

    num_batches: int
    buffers: Buffers | None
    epoch_s: float
    bound: EpochBound
    num_gpu_made: int

    @property
    def gap(self) -> float:
        """Simulated over bound, less one; negative where everything is on the device."""
        return self.epoch_s / self.bound.seconds - 1

    @property
    def route(self) -> str:
        """In a word: who makes the batches."""
        if self.buffers is None:
            return "resident"
        if self.num_gpu_made == 0:
            return "CPU only"
        return "GPU only" if self.num_gpu_made == self.num_batches else "collective"


def dispatch(
    times: StageTimes, num_batches: int, *, cpu_slots: int = 10, gpu_slots: int = 10, num_cpu_threads: int = 1
) -> Dispatch:
    """The plan simulated fastest: CPU only, GPU only, everything resident, the paper's loop, and ours.

    Ours fixes how many batches the GPU makes, near where the bound has it, and transfers as soon as there
    is something to train meanwhile; of plans as good as the best, everything resident, else the one with the
    fewest slots.

    Args:
        cpu_slots, gpu_slots: that fit into pinned and device memory, beside a batch in work (for each thread).
        num_cpu_threads: that make the CPU's batches, together one in `cpu_batching_s`.
    """
    assert num_batches >= 1, num_batches
    bound = epoch_bound(times, num_batches)

    def play(buffers: Buffers, limit_s: float) -> Played | None:
        return simulate_within(limit_s, times, buffers, num_batches, num_cpu_threads)

    candidates = _candidates(times, bound, num_batches, cpu_slots, gpu_slots, num_cpu_threads)
    buffers, played = _with_fewest_slots(*_fastest(candidates, play), play)
    if times.resident_batching_s is not None:
        resident_s = num_batches * (times.resident_batching_s + times.model_s)
        if resident_s <= played.epoch_s * _AS_GOOD:
            return Dispatch(num_batches, None, resident_s, bound, num_batches)
    return Dispatch(num_batches, buffers, played.epoch_s, bound, played.num_gpu_made)


def _candidates(
    times: StageTimes, bound: EpochBound, num_batches: int, cpu_slots: int, gpu_slots: int, num_cpu_threads: int
) -> Iterator[Buffers]:
    yield Buffers(0, 1)
    if not cpu_slots:
        return
    slots = {"cpu_slots": cpu_slots, "gpu_slots": gpu_slots}
    yield from paper_loop(times, num_batches, **slots, num_cpu_threads=num_cpu_threads)[:1]
    yield Buffers(cpu_slots, gpu_slots)
    holds = range(1, gpu_slots + 1) if num_batches <= _TRY_ALL_SPLITS else (h for h in _HOLDS if h <= gpu_slots)
    splits = {0, *_splits(bound.num_gpu_batches, num_batches)}
    yield from (Buffers(cpu_slots, gpu_slots, split, hold=hold) for hold in holds for split in splits)


def _fastest(candidates: Iterator[Buffers], play: _Play) -> tuple[Buffers, Played]:
    """The first of those with the shortest epoch; one that is longer need not be played to its end."""
    best: tuple[Buffers, Played] | None = None
    for buffers in candidates:
        played = play(buffers, best[1].epoch_s if best else math.inf)
        if played is not None and (best is None or played.epoch_s < best[1].epoch_s):
            best = buffers, played
    assert best is not None, "the first is played to its end"
    return best


def _splits(near: int, num_batches: int) -> range:
    if num_batches <= _TRY_ALL_SPLITS:
        return range(num_batches + 1)
    return range(max(0, near - _NEIGHBOURS), min(num_batches, near + _NEIGHBOURS) + 1)


def _with_fewest_slots(buffers: Buffers, played: Played, play: _Play) -> tuple[Buffers, Played]:
    """Halves each buffer for as long as the epoch stays as short."""
    limit_s = played.epoch_s * _AS_GOOD
    for name in ("gpu_slots", "cpu_slots"):
        while (slots := getattr(buffers, name) // 2) >= (buffers.hold if name == "gpu_slots" else 1):
            smaller = replace(buffers, **{name: slots})
            again = play(smaller, limit_s)
            if again is None or again.epoch_s > limit_s:
                break
            buffers, played = smaller, again
    return buffers, played


def paper_loop(
    times: StageTimes,
    num_batches: int,
    *,
    cpu_slots: int = 10**6,
    gpu_slots: int = _PAPER_GPU_SLOTS,
    num_cpu_threads: int = 1,
) -> list[Buffers]:
    """MorphGL's dispatcher (section 4.2.2): plans visited, the fastest epoch first.

    From the relaxed ratio, `cbs` goes up by one where the CPU was blocked for longer than the GPU waited,
    and down by one where not, until a plan comes again. Plans are compared by the time of a whole epoch.
    """
    ratio = relaxed_ratio(times)
    slots = cpu_slots if ratio == 0 else min(max(1, int(gpu_slots / ratio)), cpu_slots)
    visited: dict[int, float] = {}
    while 1 <= slots <= cpu_slots and slots not in visited:
        played = simulate(times, Buffers(slots, gpu_slots, phased=True), num_batches, num_cpu_threads)
        visited[slots] = played.epoch_s
        slots += 1 if played.cpu_blocked_s > played.gpu_waiting_s else -1
    return [Buffers(slots, gpu_slots, phased=True) for slots in sorted(visited, key=visited.__getitem__)]
