"""What a search proves of its own space: no plan made, layer by layer, of what it looked at is faster than this."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from gnnplan.planner.cluster import WorkerPlace
from gnnplan.planner.contracts.candidate import Candidate
from gnnplan.planner.contracts.technique import LAYOUT
from gnnplan.planner.readers.bound import Bound, stages_of
from gnnplan.planner.techniques.registry import technique

Floats: TypeAlias = NDArray[np.float64]
Workers: TypeAlias = tuple[WorkerPlace, ...]
_WEIGHTS = np.linspace(0, 1, 33)
_MOST_TASKS = 5_000_000  # of all candidates: with more, the bound of any plan has to do
_COMPUTE, _PORT = 0, 1
_NUM_STAGES = 3


def searched_bound(looked_at: Sequence[Candidate], of_set: Mapping[Workers, Bound]) -> Bound:
    """No plan of the searched space has shorter epochs.

    That space has the sets of workers and the layouts, partitions included, that the search looked at. On each of them
    it has every plan each of whose layers does what it does in some candidate there: all ways to combine what was tried
    of a layer with what was tried of the others, of which the search composed a few.

    A worker computes one operator at a time and takes part in one collective at a time. So what it does before the
    gradients' sum lasts no less than its a seconds of computing, nor than its b seconds in collectives, nor than
    w a + (1 - w) b for any w from 0 to 1. That is a sum over layers, and each layer's part is no less than the least
    that some candidate has of it. The bound is the largest of these sums over w (a Lagrangian relaxation), then the
    sum, then the same of what comes after it; of the worker where that is most.

    Args:
        of_set: bounds of all plans of the sets that were looked at, which hold here as well.
    """
    if sum(len(schedule.tasks) for each in looked_at for schedule in each.schedules.values()) > _MOST_TASKS:
        return min(of_set.values(), key=_seconds)
    groups: dict[tuple[Workers, tuple], list[Candidate]] = defaultdict(list)
    for each in looked_at:
        groups[_place_of(each)].append(each)
    found = [max(_of_group(group), of_set[workers], key=_seconds) for (workers, _), group in groups.items()]
    return min(found, key=_seconds)


def _seconds(bound: Bound) -> float:
    return bound.seconds


def _place_of(candidate: Candidate) -> tuple[Workers, tuple]:
    """The workers, and the layout with its arrays."""
    layout = [choice.key for choice in candidate.choices if LAYOUT in technique(choice.technique).claims]
    return candidate.setting.placement.workers, tuple(layout)


def _of_group(group: Sequence[Candidate]) -> Bound:
    """Of candidates on the same workers, under the same layout."""
    size, tables = group[0].setting.num_workers, [_by_layer(each) for each in group]
    pauses_s = _free_pauses_s(group[0])
    in_all, weight_of = np.zeros(size), np.zeros(size)
    for stage in range(_NUM_STAGES):
        # A layer that some candidate has nothing of may be left out altogether.
        parts = sorted({part for table in tables for part in table if part[0] == stage})
        if parts:
            seconds = np.array([[table.get(part, np.zeros((size, 2))) for part in parts] for table in tables])
            of_stage, weights = _of_stage(seconds, pauses_s)
            in_all += of_stage
            weight_of = weights if stage == 0 else weight_of
    worker = int(in_all.argmax())
    return Bound(float(in_all[worker]), _words(weight_of[worker], worker, size))


def _of_stage(seconds: Floats, pauses_s: Floats) -> tuple[Floats, Floats]:
    """By worker the largest sum over weights, and the weight that gives it.

    Args:
        seconds: float64 [candidates, parts, W, 2].
    """
    compute_s, port_s = seconds[..., _COMPUTE], seconds[..., _PORT]
    sums = np.array([(w * compute_s + (1 - w) * port_s).min(0).sum(0) - w * pauses_s for w in _WEIGHTS])
    return np.maximum(sums.max(0), 0.0), _WEIGHTS[sums.argmax(0)]


def _words(weight: float, worker: int, size: int) -> str:
    what = {0.0: "sending", 1.0: "computing"}.get(float(weight), "computing and sending")
    return f"{what} of worker {worker} of {size}, layer by layer"


def _by_layer(candidate: Candidate) -> dict[tuple[int, str], Floats]:
    """By stage and layer (or other part of an epoch) float64 [W, 2]: seconds of every worker, computing and sending."""
    found: dict[tuple[int, str], Floats] = defaultdict(lambda: np.zeros((candidate.setting.num_workers, 2)))
    for name, share in candidate.shares.items():
        stage_of = _stages(candidate, name)
        for task in candidate.schedules[name].tasks:
            lane = _PORT if task.category == "communicate" else _COMPUTE
            whole_s = math.floor(task.seconds * 1e9) / 1e9  # the engine counts whole nanoseconds
            if task.key in stage_of:
                found[stage_of[task.key], task.key.partition("/")[0]][task.worker, lane] += share * whole_s
    return found


def _stages(candidate: Candidate, name: str) -> dict[str, int]:
    """By task key, whether it comes before the gradients' sum, is it, or comes after it; all in one without a sum."""
    program = candidate.cycle.programs[name]
    stages = stages_of(candidate.cycle, program) or (range(len(program)),)
    return {program[number].key: stage for stage, numbers in enumerate(stages) for number in numbers}


def _free_pauses_s(candidate: Candidate) -> Floats:
    """Float64 [W]: by how much less than its sustained seconds a worker may compute in a stage, under its quota.

    Two periods' shares may pass without a pause between them (`gnnplan.planner.readers.bound`).
    """
    found = np.zeros(candidate.setting.num_workers)
    for schedule in candidate.schedules.values():
        for worker, quota in schedule.quotas.items():
            if worker < len(found):
                found[worker] = max(found[worker], 2 * quota.period_s * (1 - quota.share))
    return found
