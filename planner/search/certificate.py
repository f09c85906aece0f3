"""What a search proves of its own space: no plan made, layer by layer, of what it looked at is faster than this."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from gnnplan.planner.cluster import WorkerPlace
from gnnplan.planner.contracts.candidate import Candidate
from gnnplan.planner.contracts.technique import LAYOUT
from gnnplan.planner.program.cycle import Cycle, Program
from gnnplan.planner.readers.bound import Bound, stages_of, with_least_pauses
from gnnplan.planner.schedule import Task
from gnnplan.planner.search.layers import Window, layers, windows
from gnnplan.planner.techniques.registry import technique

Floats: TypeAlias = NDArray[np.float64]
Workers: TypeAlias = tuple[WorkerPlace, ...]
_Part: TypeAlias = tuple[int, str]  # stage, and layer or other part of an epoch
_WEIGHTS = np.linspace(0, 1, 33)
_MOST_TASKS = 5_000_000  # of all candidates: with more, the bound of any plan has to do
_COMPUTE, _PORT, _IN_TURN, _SUSTAINED = range(4)
_NUM_COLUMNS = 4
_OF_COMPUTE = len(_WEIGHTS) - 1
_ROUNDING = 1e-9
_NUM_STAGES = 3


def searched_bound(looked_at: Sequence[Candidate], of_set: Mapping[Workers, Bound]) -> Bound:
    """No plan of the searched space has shorter epochs.

    That space has the sets of workers and the layouts, partitions included, that the search looked at. On each of them
    it has every plan whose workers have the rows of some candidate, level by level, and each of whose layers does what
    it does in some candidate that has the same rows there. So it has all ways to combine what was tried of a layer with
    what was tried of the others, of which the search composed a few. Layers that disagree on the rows between them make
    no plan: one would read rows, such as replicas, that the other does not make.

    A worker computes one operator at a time and takes part in one collective at a time. So what it does before the
    gradients' sum lasts no less than its a seconds of computing, nor than its b seconds in collectives, nor than
    w a + (1 - w) b for any w from 0 to 1. That is a sum over layers, and each layer's part is no less than the least
    that some candidate has of it. Layers follow one another besides, there and back: between the ends of two of them
    pass the seconds of computing, or those in collectives, of what has to run there (`gnnplan.planner.search.layers`).
    The bound is the largest of these sums, over w (a Lagrangian relaxation) and in turn, then the sum, then the same of
    what comes after it; of the worker where that is most. Under a quota it is no less than what the worker has to
    sustain in the long run.

    Args:
        of_set: bounds of all plans of the sets that were looked at, which hold here as well; and of sets that were not,
            for the search ended, but could have better plans.
    """
    if sum(len(schedule.tasks) for each in looked_at for schedule in each.schedules.values()) > _MOST_TASKS:
        return min(of_set.values(), key=_seconds)
    groups: dict[tuple[Workers, tuple], list[_Layers]] = defaultdict(list)
    for each in looked_at:
        groups[_place_of(each)].append(_Layers.of(each))
    found = [max(_of_group(group), of_set[workers], key=_seconds) for (workers, _), group in groups.items()]
    looked_at_sets = {workers for workers, _ in groups}
    found += [bound for workers, bound in of_set.items() if workers not in looked_at_sets]
    return min(found, key=_seconds)


def _seconds(bound: Bound) -> float:
    return bound.seconds


def _place_of(candidate: Candidate) -> tuple[Workers, tuple]:
    """The workers, and the layout with its arrays."""
    layout = [choice.key for choice in candidate.choices if LAYOUT in technique(choice.technique).claims]
    return candidate.setting.placement.workers, tuple(layout)


@dataclass(frozen=True)
class _Quotas:
    """Of every worker, float64 [W]: the share of each period in which its quota lets it compute (1: it has none).

    Two periods' shares may pass without a pause between them (`gnnplan.planner.readers.bound`).

    Args:
        are_alike: all epochs are of one program. Of several the mean is known, which says less of their pauses.
    """

    share: Floats
    period_s: Floats
    are_alike: bool

    @classmethod
    def of(cls, candidate: Candidate) -> _Quotas:
        share, period_s = np.ones(candidate.setting.num_workers), np.zeros(candidate.setting.num_workers)
        for schedule in candidate.schedules.values():
            for worker, quota in schedule.quotas.items():
                if worker < len(share):
                    share[worker], period_s[worker] = quota.share, quota.period_s
        return cls(share, period_s, len(candidate.shares) == 1)

    @property
    def free_pauses_s(self) -> Floats:
        """By how much less than its sustained seconds a worker may compute in a stage, at most."""
        return 2 * self.period_s * (1 - self.share)

    def sustained_s(self, collective: Task) -> float:
        """What a collective uses of its worker's processor, as its quota has it; without a quota nothing counts."""
        share = self.share[collective.worker]
        return collective.processor_s / share if share < 1 else 0.0

    def least_s(self, sustained_s: Floats) -> Floats:
        """What a worker takes at least in a stage for so many sustained seconds."""
        if not self.are_alike:
            return sustained_s - self.free_pauses_s
        work_ns = np.floor(sustained_s * self.share * 1e9).astype(np.int64)
        quota_ns = np.where(self.share < 1, np.ceil(self.period_s * self.share * 1e9), 0).astype(np.int64)
        period_ns = np.round(self.period_s * 1e9).astype(np.int64)
        return with_least_pauses(work_ns, quota_ns, period_ns) / 1e9


@dataclass(frozen=True)
class _Layers:
    """A candidate, part by part: layers, and what else an epoch has, before the gradients' sum, in it, or after it.

    Args:
        seconds: by part float64 [W, 4] of every worker, as `_by_layer` has them.
        touched: by part the spaces of vertices that it reads and writes.
        rows: by space of vertices, how many every worker has.
        quotas: of every worker that has one.
    """

    seconds: dict[_Part, Floats]
    touched: dict[_Part, frozenset[str]]
    rows: dict[str, tuple[int, ...]]
    quotas: _Quotas

    @classmethod
    def of(cls, candidate: Candidate) -> _Layers:
        cycle = candidate.cycle
        rows = {name: space.sizes for name, space in cycle.spaces.items() if space.is_of_vertices}
        quotas = _Quotas.of(candidate)
        return cls(_by_layer(candidate, quotas), _touched(candidate), rows, quotas)

    def agrees(self, part: _Part, other: _Layers) -> bool:
        """Whether this part could stand in the other one's plan: it has the same rows."""
        names = self.touched.get(part, frozenset())
        return all(other.rows.get(name, self.rows[name]) == self.rows[name] for name in names)


def _of_group(group: Sequence[_Layers]) -> Bound:
    """Of candidates on the same workers, under the same layout; of the rows for which it is least."""
    parts = sorted({part for each in group for part in each.seconds})
    size = len(group[0].quotas.share)
    # A layer that some candidate has nothing of may be left out altogether.
    seconds = np.array([[each.seconds.get(part, np.zeros((size, _NUM_COLUMNS))) for part in parts] for each in group])
    by_rows = {tuple(sorted(each.rows.items())): each for each in group}
    quotas = min((each.quotas for each in group), key=lambda quotas: quotas.are_alike)
    return min((_of_rows(group, parts, seconds, each, quotas) for each in by_rows.values()), key=_seconds)


def _of_rows(
    group: Sequence[_Layers], parts: Sequence[_Part], seconds: Floats, rows: _Layers, quotas: _Quotas
) -> Bound:
    """Of plans whose workers have the rows of one candidate.

    Args:
        seconds: float64 [candidates, parts, W, 4].
    """
    may_stand = np.array([[each.agrees(part, rows) for part in parts] for each in group])
    in_all, set_by = np.zeros_like(quotas.share), np.zeros(len(quotas.share), int)
    for stage in range(_NUM_STAGES):
        if of_it := [number for number, part in enumerate(parts) if part[0] == stage]:
            of_stage, by = _of_stage(seconds[:, of_it], may_stand[:, of_it], quotas)
            in_all += of_stage
            set_by = by if stage == 0 else set_by
    sustained_s = np.where(may_stand[..., None], seconds[..., _SUSTAINED], np.inf).min(0).sum(0) * (1 - _ROUNDING)
    set_by = np.where(sustained_s > in_all, _OF_COMPUTE, set_by)
    in_all = np.maximum(in_all, sustained_s)
    worker = int(in_all.argmax())
    return Bound(float(in_all[worker]), f"{_words(set_by[worker])} of worker {worker} of {len(in_all)}, layer by layer")


def _of_stage(seconds: Floats, may_stand: NDArray[np.bool_], quotas: _Quotas) -> tuple[Floats, NDArray[np.int_]]:
    """By worker the largest sum over weights, or of what passes in turn, and the number of the weight that gives it.

    Args:
        seconds: float64 [candidates, parts, W, 4].
        may_stand: bool [candidates, parts], what there is to choose from.
    """
    compute_s, port_s, in_turn_s = (seconds[..., column] for column in (_COMPUTE, _PORT, _IN_TURN))
    weighed = [w * compute_s + (1 - w) * port_s for w in _WEIGHTS] + [in_turn_s]
    sums = np.array([np.where(may_stand[..., None], each, np.inf).min(0).sum(0) for each in weighed])
    sums[_OF_COMPUTE] = quotas.least_s(sums[_OF_COMPUTE])
    sums[:_OF_COMPUTE] -= _WEIGHTS[:-1, None] * quotas.free_pauses_s
    return np.maximum(sums.max(0), 0.0), sums.argmax(0)


def _words(number: int) -> str:
    return {0: "sending", _OF_COMPUTE: "computing"}.get(int(number), "computing and sending")


def _by_layer(candidate: Candidate, quotas: _Quotas) -> dict[_Part, Floats]:
    """By stage and layer (or other part of an epoch) float64 [W, 4]: seconds of every worker.

    They are of computing; of sending; of what passes in turn, in every window of the part (`windows`) the longer of
    both, computing by the processor's time alone; and of what a quota has to sustain in the long run.
    """
    found: dict[_Part, Floats] = defaultdict(lambda: np.zeros((candidate.setting.num_workers, _NUM_COLUMNS)))
    cycle = candidate.cycle
    for name, share in candidate.shares.items():
        program = cycle.programs[name]
        stage_of, layer_of, window_of = _stages(cycle, program), cycle.once(layers, program), windows(cycle, program)
        of_window: dict[Window, Floats] = defaultdict(lambda: np.zeros((candidate.setting.num_workers, 2)))
        for task in candidate.schedules[name].tasks:
            lane = _PORT if task.category == "communicate" else _COMPUTE
            whole_s = math.floor(task.seconds * 1e9) / 1e9  # the engine counts whole nanoseconds
            if task.key in stage_of:
                part = found[stage_of[task.key], layer_of[task.key]][task.worker]
                part[lane] += share * whole_s
                part[_SUSTAINED] += share * (whole_s if lane == _COMPUTE else quotas.sustained_s(task))
            if task.key in window_of:
                of_window[window_of[task.key]][task.worker, lane] += share * whole_s
        for (layer, _), seconds in of_window.items():
            found[0, layer][:, _IN_TURN] += np.maximum(seconds[:, _COMPUTE] * quotas.share, seconds[:, _PORT])
    return found


def _touched(candidate: Candidate) -> dict[_Part, frozenset[str]]:
    """By stage and layer, the spaces of vertices that its operators read and write."""
    cycle, found = candidate.cycle, defaultdict[_Part, set[str]](set)
    for program in (cycle.programs[name] for name in candidate.shares):
        stage_of, layer_of = _stages(cycle, program), cycle.once(layers, program)
        for op in program:
            if op.key in stage_of:
                spaces = {cycle.values[value].space for value in (*op.reads, *op.writes)}
                part = stage_of[op.key], layer_of[op.key]
                found[part] |= {space for space in spaces if cycle.spaces[space].is_of_vertices}
    return {part: frozenset(spaces) for part, spaces in found.items()}


def _stages(cycle: Cycle, program: Program) -> dict[str, int]:
    """By task key, whether it comes before the gradients' sum, is it, or comes after it; all in one without a sum."""
    stages = stages_of(cycle, program) or (range(len(program)),)
    return {program[number].key: stage for stage, numbers in enumerate(stages) for number in numbers}
