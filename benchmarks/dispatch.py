"""Plans for mini-batches against the optimum (CP-SAT) where it can be had, and against the bound where not.

`gap` is to what the solver has proven that no epoch can be shorter than: the optimum where it came to its end, and its
bound where it did not. `gap_to_found` is to the shortest epoch that it found. The solver has one sampling thread; with
fifteen, plans are set beside the best of all splits (`regret_with_threads`).
"""

from __future__ import annotations

import os
import random
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor

import numpy as np
from rich.progress import track

from benchmarks.oracles.dispatch import solve
from gnnplan.planner.minibatch.bound import epoch_bound
from gnnplan.planner.minibatch.dispatch import dispatch, paper_loop
from gnnplan.planner.minibatch.policy import Buffers
from gnnplan.planner.minibatch.simulate import simulate
from gnnplan.planner.minibatch.stages import StageTimes

_MAX_EXACT_BATCHES = 16
_MAX_SLOTS = 6
_LONG_EPOCH = 1000
_NUM_THREADS, _THREADS_EPOCH = 15, 100  # of a lent H200, and of `routes`
_NUM_WITH_THREADS = 50  # tuples for which every split is simulated
_VERY_LONG_EPOCH = 20_000
_BREAKING_MS = ((40, 30, 20, 10), (8.4, 30.2, 6.1, 4.0), (100, 11, 10, 5))
_SEED = 0


def main(quick: bool) -> dict:
    """Random stage times over two decades, and three that break the paper's public code."""
    rng = random.Random(_SEED)
    num_random = 4 if quick else 500
    cases = [_stage_times(ms) for ms in _BREAKING_MS] + [_random_times(rng) for _ in range(num_random)]
    exact = _against_optima(cases, rng, limit_s=1 if quick else 20)
    num_batches = _LONG_EPOCH // 5 if quick else _LONG_EPOCH
    long = [_against_bound(times, num_batches) for times in track(cases, "against the bound")]
    gaps, paper = [row["gap"] for row in exact], [row["paper_gap"] for row in long]
    regrets = [_with_threads(times) for times in track(cases[:_NUM_WITH_THREADS], "with many threads")]
    very_long = [_planning_s(times, threads) for times in cases[:_NUM_WITH_THREADS] for threads in (1, _NUM_THREADS)]
    return {
        "tuples": len(cases),
        "mean_gap": float(np.mean(gaps)),
        "worst_gap": float(np.max(gaps)),
        "proven_optimal": sum(row["is_optimal"] for row in exact),
        "worst_gap_where_proven": max((row["gap"] for row in exact if row["is_optimal"]), default=None),
        "mean_gap_to_found": float(np.mean([row["gap_to_found"] for row in exact])),
        "worst_gap_to_found": float(np.max([row["gap_to_found"] for row in exact])),
        "mean_bound_gap": float(np.mean([row["gap"] for row in long])),
        "worst_bound_gap": float(np.max([row["gap"] for row in long])),
        "paper_mean_bound_gap": float(np.mean(paper)),
        "paper_worst_bound_gap": float(np.max(paper)),
        "mean_regret_with_threads": float(np.mean(regrets)),
        "worst_regret_with_threads": max(regrets),
        "mean_planning_s": float(np.mean([row["planning_s"] for row in long])),
        "worst_planning_s": max(row["planning_s"] for row in long),
        "worst_planning_s_of_very_long": max(very_long),
        "worst_estimate_error": max(abs(row["estimate_error"]) for row in long),
        "breaking": [{"times_ms": ms, "bound_gap": row["gap"]} for ms, row in zip(_BREAKING_MS, long)],
        "worst_rows": sorted(exact, key=lambda row: -row["gap"])[:10],
    }


def _stage_times(milliseconds: tuple[float, float, float, float]) -> StageTimes:
    cpu, gpu, dma, model = (value / 1e3 for value in milliseconds)
    return StageTimes(cpu_batching_s=cpu, gpu_batching_s=gpu, dma_s=dma, model_s=model)


def _random_times(rng: random.Random) -> StageTimes:
    """Log-uniform: CPU batching 1 to 100 ms, GPU batching 1 to 50, DMA and training 0.5 to 25."""
    ranges = ((1, 100), (1, 50), (0.5, 25), (0.5, 25))
    return _stage_times(tuple(low * (high / low) ** rng.random() for low, high in ranges))  # type: ignore[arg-type]


def _against_optima(cases: Sequence[StageTimes], rng: random.Random, limit_s: float) -> list[dict]:
    """A row each, of a random number of batches and slots; as many at a time as there are cores, for none is timed."""

    def row(case: tuple[StageTimes, int, int, int]) -> dict:
        return _against_optimum(*case, limit_s)

    drawn = [
        (times, rng.randint(3, _MAX_EXACT_BATCHES), rng.randint(1, _MAX_SLOTS), rng.randint(1, _MAX_SLOTS))
        for times in cases
    ]
    with ThreadPoolExecutor(os.cpu_count()) as pool:  # the solver has one thread, and lets go of Python's lock
        return list(track(pool.map(row, drawn), "against the optimum", total=len(drawn)))


def _against_optimum(times: StageTimes, num_batches: int, cpu_slots: int, gpu_slots: int, limit_s: float) -> dict:
    plan = dispatch(times, num_batches, cpu_slots=cpu_slots, gpu_slots=gpu_slots)
    exact = solve(times, cpu_slots, gpu_slots, num_batches, at_most_s=plan.epoch_s, limit_s=limit_s)
    return {
        "times_s": times.model_dump(exclude_none=True),
        "num_batches": num_batches,
        "cpu_slots": cpu_slots,
        "gpu_slots": gpu_slots,
        "gap": plan.epoch_s / exact.bound_s - 1,
        "gap_to_found": plan.epoch_s / exact.seconds - 1,
        "is_optimal": exact.is_optimal,
        "route": plan.route,
    }


def _against_bound(times: StageTimes, num_batches: int) -> dict:
    """Of a long epoch; its plan is made on a part of it, and judged here by all."""
    start_s = time.perf_counter()
    plan = dispatch(times, num_batches)
    planning_s = time.perf_counter() - start_s
    assert plan.buffers is not None
    paper = paper_loop(times, num_batches, cpu_slots=100)[0]
    bound_s, epoch_s = epoch_bound(times, num_batches).seconds, simulate(times, plan.buffers, num_batches).epoch_s
    return {
        "gap": epoch_s / bound_s - 1,
        "estimate_error": plan.epoch_s / epoch_s - 1,
        "paper_gap": simulate(times, paper, num_batches).epoch_s / bound_s - 1,
        "planning_s": planning_s,
    }


def _planning_s(times: StageTimes, num_threads: int) -> float:
    """Of a very long epoch."""
    start_s = time.perf_counter()
    dispatch(times, _VERY_LONG_EPOCH, num_cpu_threads=num_threads)
    return time.perf_counter() - start_s


def _with_threads(times: StageTimes) -> float:
    """How much longer the plan for fifteen threads takes than the best of all splits, as a share of that."""
    plan = dispatch(times, _THREADS_EPOCH, num_cpu_threads=_NUM_THREADS)
    every = (Buffers(10, 10, split) for split in range(_THREADS_EPOCH + 1))
    return plan.epoch_s / min(simulate(times, each, _THREADS_EPOCH, _NUM_THREADS).epoch_s for each in every) - 1
