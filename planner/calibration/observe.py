"""A measured trace beside the tasks its plan is lowered to: what each task took, waiting left out."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import accumulate

import numpy as np

from gnnplan.planner.beside import shares_beside
from gnnplan.planner.calibration.fit import Sample
from gnnplan.planner.lowering import lower_plan
from gnnplan.planner.plan import Plan
from gnnplan.planner.schedule import Schedule, Task
from gnnplan.planner.simulator.steady import play_epochs
from gnnplan.planner.trace import Trace
from gnnplan.profiles.machine import MachineProfile

COLLECTIVES = ("all_reduce", "all_to_all")
CLOCK_S = 1e-9  # what no clock of ours resolves
_FEWEST_TO_TRIM = 5
_AS_LONG = 0.8  # of the longest: less is not jitter

_Edges = dict[tuple[str, int], dict[int, tuple[float, float]]]  # (start, end) by (key, worker) and epoch


def family(collective: str) -> str:
    """The collective a table belongs to: `all_to_all` for `all_to_all_port`."""
    return next((name for name in COLLECTIVES if collective == name or collective.startswith(f"{name}_")), collective)


@dataclass(frozen=True)
class Observed:
    """What runs show.

    Args:
        compute: samples of the compute tasks, by the profile of their worker.
        collectives: samples of the collectives, one for each among all workers.
        overheads_s: host seconds per compute task of each worker, by profile.
    """

    compute: dict[str, list[Sample]] = field(default_factory=lambda: defaultdict(list))
    collectives: list[Sample] = field(default_factory=list)
    overheads_s: dict[str, list[float]] = field(default_factory=lambda: defaultdict(list))

    def add(self, other: Observed) -> None:
        """Takes in what another run shows."""
        self.collectives.extend(other.collectives)
        for name, samples in other.compute.items():
            self.compute[name].extend(samples)
        for name, seconds in other.overheads_s.items():
            self.overheads_s[name].extend(seconds)


def observe(plan: Plan, trace: Trace, corrected: Mapping[str, MachineProfile]) -> Observed:
    """Lays the spans of a trace over the tasks of its plan's schedule.

    Only predicted tasks are compared, never simulated waiting for peers. Under a CPU quota a task right
    after a pause is faster than the sustained operators it is made of: as much as in the simulation. Of a plan
    with a refresh interval the epochs that refresh are looked at: they have every operator that others have.

    Args:
        corrected: profiles by name, as they are corrected so far. Samples are made of what the plan's own profiles say,
            at the pace of a simulation under these.
    """
    tasks, schedule = lower_plan(plan).tasks, lower_plan(with_profiles(plan, corrected))
    spans = tuple(span for span in trace.spans if span.epoch % plan.refresh_interval == 0)
    trace = trace.model_copy(update={"spans": spans})
    pace = _pace(schedule)
    profiles = [plan.placement.profile_of(worker) for worker in range(plan.num_workers)]
    measured_s = _measured_s(schedule, trace)
    epoch_s = sum(measured_s.values()) / plan.num_workers
    seen = Observed()
    for task, now, faster in zip(tasks, schedule.tasks, pace, strict=True):
        took_s, now_s = measured_s[task.key, task.worker], faster * sum(seconds for _, seconds in now.parts)
        profile, samples = profiles[task.worker], _sample(task, took_s, epoch_s, faster, now_s)
        if task.category == "compute" and _shows_operators(task, profile):
            seen.compute[profile.name].extend(samples)
        elif task.category == "communicate" and task.worker == 0:  # one sample for all its members
            seen.collectives.extend(samples)
    shares = shares_beside(plan.placement)  # what a profile has is of hosts that all compute
    for worker, seconds in _overheads_s(schedule, trace, pace).items():
        # A GPU's launches run ahead of it: the gaps between its kernels are not what a launch takes.
        if profiles[worker].device_kind == "cpu":
            seen.overheads_s[profiles[worker].name].append(seconds / shares[plan.placement.workers[worker].profile])
    return seen


def with_profiles(plan: Plan, profiles: Mapping[str, MachineProfile]) -> Plan:
    """The same plan predicted by other profiles of the same names."""
    placement = plan.placement
    by_key = {key: profiles.get(profile.name, profile) for key, profile in placement.profiles.items()}
    return plan.model_copy(update={"placement": placement.model_copy(update={"profiles": by_key})})


def _measured_s(schedule: Schedule, trace: Trace) -> dict[tuple[str, int], float]:
    """Seconds of every task by (key, worker) over epochs, without waiting; 0 where it has no spans."""
    edges: _Edges = defaultdict(dict)
    for span in trace.spans:
        edges[span.task, span.worker][span.epoch] = (span.start_s, span.end_s)
    return {
        (task.key, task.worker): _collective_s(edges, task.key, schedule.num_workers)
        if task.category == "communicate"
        else _median(end_s - start_s for start_s, end_s in edges[task.key, task.worker].values())
        for task in schedule.tasks
    }


def _shows_operators(task: Task, profile: MachineProfile) -> bool:
    """Whether a task lasts as long as its operators; on a GPU short ones last as long as their launch."""
    return profile.device_kind == "cpu" or sum(seconds for _, seconds in task.parts) > profile.host_overhead_s


def _pace(schedule: Schedule) -> list[float]:
    """Simulated seconds of every task over its sustained ones: 1 but where a quota speeds it up or holds it up."""
    if not schedule.quotas:
        return [1.0] * len(schedule.tasks)
    epochs = play_epochs(schedule)
    spent_s = np.median((epochs.end_ns - epochs.start_ns) / 1e9, 0).tolist()
    limited = schedule.quotas.keys()
    return [
        seconds / task.seconds if {task.resource, task.charged} & limited and task.seconds > 0 and seconds > 0 else 1.0
        for task, seconds in zip(schedule.tasks, spent_s)
    ]


def _sample(task: Task, measured_s: float, epoch_s: float, pace: float, now_s: float) -> list[Sample]:
    """The task as a sample; none where nothing was predicted or measured to take time.

    Squared relative errors are weighted by the task's share of the epoch (its root scales the equation): a
    prediction is judged by the seconds an epoch is off, so long tasks have to fit best. By its square, which
    is least squares in seconds, the loss or the optimizer would vanish beside the ridge, never corrected.
    """
    parts: dict[str, float] = defaultdict(float)
    for operator, seconds in task.parts:
        parts[family(operator) if task.category == "communicate" else operator] += seconds * pace
    parts = {operator: seconds for operator, seconds in parts.items() if seconds > 0}
    if not parts or measured_s < CLOCK_S:
        return []
    return [Sample(parts, measured_s, measured_s / epoch_s, now_s)]


def _collective_s(edges: _Edges, key: str, num_workers: int) -> float:
    """Seconds from the last member's coming until the members end that take longest: mean over these, and over epochs.

    Of an exchange in which all send as much, which is how it was profiled, these are all members. Where some receive
    less than others they end sooner, and what is predicted is how long the others take.

    Some exchanges wait for a core and some do not (`gnnplan.profiles.collectives`); an epoch has several, so their mean
    counts. The shortest and the longest are left out where there are enough: of one epoch that went wrong nothing is
    learnt.
    """
    members = [edges[key, worker] for worker in range(num_workers)]
    whole = set.intersection(*(set(epochs) for epochs in members))
    if not whole:
        return 0.0
    came_s = {epoch: max(member[epoch][0] for member in members) for epoch in whole}
    taken_s = np.array([[member[epoch][1] - came_s[epoch] for member in members] for epoch in sorted(whole)])
    usual_s = np.median(taken_s, axis=0)
    longest_s = np.sort(taken_s[:, usual_s >= _AS_LONG * usual_s.max()].mean(1).clip(0.0))
    return float(np.mean(longest_s[1:-1] if len(longest_s) >= _FEWEST_TO_TRIM else longest_s))


def _overheads_s(schedule: Schedule, trace: Trace, pace: Sequence[float]) -> dict[int, float]:
    """Seconds between a worker's spans per compute task, by worker: median over epochs.

    Divided by the compute tasks because `with_overhead_s` adds the overhead to these alone: so the
    predicted epoch gets back what lies between all its tasks; at the sustained pace, as they are predicted.
    """
    by_epoch: dict[tuple[int, int], list[tuple[float, float]]] = defaultdict(list)
    for span in trace.spans:
        by_epoch[span.worker, span.epoch].append((span.start_s, span.end_s))
    gaps_s: dict[int, list[float]] = defaultdict(list)
    for (worker, _), times in by_epoch.items():
        times.sort()
        ends = accumulate((end for _, end in times), max)  # exchanges may last beyond what is computed beside them
        gaps_s[worker].append(sum(max(begin - end, 0.0) for end, (begin, _) in zip(ends, times[1:])))
    paces: dict[int, list[float]] = defaultdict(list)
    begun: set[int] = set()
    for task, faster in zip(schedule.tasks, pace):
        if task.category == "compute" and task.worker in begun:  # what lies before the first task is between no spans
            paces[task.worker].append(faster)
        begun.add(task.worker)
    return {w: _median(values) / sum(paces[w]) for w, values in gaps_s.items() if paces[w]}


def _median(values: Iterable[float]) -> float:
    kept = list(values)
    return float(np.median(kept)) if kept else 0.0
