"""Which batches the CPU makes and which the GPU, and with what buffers: found by simulation, judged by a bound."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace

import numpy as np

from gnnplan.planner.minibatch.bound import EpochBound, epoch_bound, relaxed_ratio, split_bounds
from gnnplan.planner.minibatch.policy import Buffers
from gnnplan.planner.minibatch.shorten import ENOUGH, ShortEpoch, shortened
from gnnplan.planner.minibatch.simulate import Played, simulate, simulate_within
from gnnplan.planner.minibatch.stages import StageTimes

_PAPER_GPU_SLOTS = 10  # MorphGL, section 5.1
_TRY_ALL = 32  # batches up to which every split is tried with every `hold`
_SPLITS_OF_HOLD = (100, 13, 13)  # tried with a `hold` of 1, 2, 3; beyond that many batches leave nothing to gain
_PLAYED_WHOLE = 2000  # batches up to which the plan that was found is
_AS_GOOD = 1.001

_Play = Callable[[Buffers, float], Played | None]


@dataclass(frozen=True)
class Dispatch:
    """A plan for an epoch of `num_batches`.

    Args:
        buffers: None: everything is on the device, nothing is batched over PCIe.
        epoch_s: simulated; of a long epoch, estimated from some hundreds of batches that were.
        bound: of any plan with as many threads, from the device alone too where everything fits there; `gap` is how
            far above it this one is.
    """

    num_batches: int
    buffers: Buffers | None
    epoch_s: float
    bound: EpochBound
    num_gpu_made: int

    @property
    def gap(self) -> float:
        """Simulated over bound, less one."""
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

    Ours fixes how many batches the GPU makes, where the bound promises most, and transfers as soon as there
    is something to train meanwhile; of plans as good as the best, everything resident, else the one with the
    fewest slots. Of an epoch of many batches some hundreds are simulated (`shortened`), to find the split on these.

    Args:
        cpu_slots, gpu_slots: that fit into pinned and device memory, beside a batch in work (for each thread).
        num_cpu_threads: that make the CPU's batches, together one in `cpu_batching_s`.
    """
    assert num_batches >= 1, num_batches
    bound = epoch_bound(times, num_batches, num_cpu_threads)
    short = shortened(times, num_batches, num_cpu_threads)

    def play(buffers: Buffers, limit_s: float) -> Played | None:
        return simulate_within(limit_s, times, buffers, short.num_batches, num_cpu_threads)

    def of_all(found: tuple[Buffers, Played]) -> float:
        return _of_all(times, short, *found, num_cpu_threads)

    kinds = _candidates(times, short, cpu_slots, gpu_slots, num_cpu_threads)
    # Of the whole epoch: what was left out is not as fast for every kind, so a short epoch does not tell between them.
    fastest = min([_fastest(candidates, play) for candidates in kinds], key=of_all)
    buffers, played = _with_fewest_slots(*fastest, play)
    epoch_s = of_all((buffers, played))
    if times.resident_batching_s is not None:
        resident_s = num_batches * (times.resident_batching_s + times.gpu_only_model_s)
        if resident_s <= epoch_s * _AS_GOOD:
            return Dispatch(num_batches, None, resident_s, bound, num_batches)
    num_gpu_made = short.made_of_all(buffers, played.num_gpu_made)
    return Dispatch(num_batches, short.buffers_of_all(buffers), epoch_s, bound, num_gpu_made)


def _of_all(times: StageTimes, short: ShortEpoch, buffers: Buffers, played: Played, num_cpu_threads: int) -> float:
    """Seconds of the whole epoch, played where that is soon done.

    Of a longer one what was left out takes as much longer than its bound as half of what was played.
    """
    if not short.num_cut:
        return played.epoch_s
    if short.num_all <= _PLAYED_WHOLE:
        return simulate(times, short.buffers_of_all(buffers), short.num_all, num_cpu_threads).epoch_s

    def bound_s(num_batches: int, num_gpu: int) -> float:
        return float(split_bounds(times, num_batches, np.array([num_gpu]), num_cpu_threads)[0])

    all_s = bound_s(short.num_all, short.made_of_all(buffers, played.num_gpu_made))
    played_s = bound_s(short.num_batches, played.num_gpu_made)
    shorter = shortened(times, short.num_all, num_cpu_threads, ENOUGH // 2)
    again = shorter.buffers_of_these(short.buffers_of_all(buffers))
    half = simulate(times, again, shorter.num_batches, num_cpu_threads)
    half_s = bound_s(shorter.num_batches, half.num_gpu_made)
    if played_s - half_s < played_s / 4:  # too little to tell the middle from begin and end
        slowdown = played.epoch_s / played_s
    else:
        slowdown = (played.epoch_s - half.epoch_s) / (played_s - half_s)
    return max(all_s, played.epoch_s + (all_s - played_s) * slowdown)


def _candidates(
    times: StageTimes, short: ShortEpoch, cpu_slots: int, gpu_slots: int, num_cpu_threads: int
) -> Iterator[Iterable[Buffers]]:
    """By kind: all by the GPU, the paper's loop, by whoever is ready, fixed splits, all by the CPU."""
    yield [Buffers(0, 1)]
    if not cpu_slots:
        return
    slots = {"cpu_slots": cpu_slots, "gpu_slots": gpu_slots}
    if loop := paper_loop(times, short.num_batches, **slots, num_cpu_threads=num_cpu_threads)[:1]:
        yield loop
    yield [Buffers(cpu_slots, gpu_slots)]
    if split := list(_fixed_splits(times, short, cpu_slots, gpu_slots, num_cpu_threads)):
        yield split
    yield [Buffers(cpu_slots, gpu_slots, 0)]


def _fixed_splits(
    times: StageTimes, short: ShortEpoch, cpu_slots: int, gpu_slots: int, num_cpu_threads: int
) -> Iterator[Buffers]:
    splits = _splits(times, short, num_cpu_threads)
    all_holds = range(1, gpu_slots + 1)
    for hold in all_holds if short.num_batches <= _TRY_ALL else all_holds[: len(_SPLITS_OF_HOLD)]:
        num_tried = len(splits) if short.num_batches <= _TRY_ALL else _SPLITS_OF_HOLD[hold - 1]
        yield from (Buffers(cpu_slots, gpu_slots, split, hold=hold) for split in splits[:num_tried])


def _splits(times: StageTimes, short: ShortEpoch, num_cpu_threads: int) -> list[int]:
    """How many batches of the short epoch the GPU may make, the most promising first, as the bound has it.

    It is that of the whole epoch, and knows that the CPU's threads make whole rounds of batches: one batch more may
    cost one round more.
    """
    num_gpu = np.arange(short.num_gpu_cut + 1, short.num_gpu_cut + short.num_batches)
    order = np.argsort(split_bounds(times, short.num_all, num_gpu, num_cpu_threads), kind="stable")
    return (order + 1).tolist()


def _fastest(candidates: Iterable[Buffers], play: _Play) -> tuple[Buffers, Played]:
    """The first of those with the shortest epoch; one that is longer need not be played to its end."""
    best: tuple[Buffers, Played] | None = None
    for buffers in candidates:
        played = play(buffers, best[1].epoch_s if best else math.inf)
        if played is not None and (best is None or played.epoch_s < best[1].epoch_s):
            best = buffers, played
    assert best is not None, "the first is played to its end"
    return best


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
    ratio = relaxed_ratio(times.where_both_make)
    slots = cpu_slots if ratio == 0 else min(max(1, int(gpu_slots / ratio)), cpu_slots)
    visited: dict[int, float] = {}
    while 1 <= slots <= cpu_slots and slots not in visited:
        played = simulate(times, Buffers(slots, gpu_slots, phased=True), num_batches, num_cpu_threads)
        visited[slots] = played.epoch_s
        slots += 1 if played.cpu_blocked_s > played.gpu_waiting_s else -1
    return [Buffers(slots, gpu_slots, phased=True) for slots in sorted(visited, key=visited.__getitem__)]
