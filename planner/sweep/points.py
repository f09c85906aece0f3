"""The points of a sweep: a job's model setting on a machine, priced."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import product

from gnnplan.planner.job import Job
from gnnplan.planner.statistics.contract import Statistics
from gnnplan.planner.statistics.price import Pricer, fastest
from gnnplan.planner.statistics.price_batches import HostRates, price_batches
from gnnplan.planner.statistics.stand_in import Structures
from gnnplan.planner.sweep.contract import ModelAxes, Sweep, check_count
from gnnplan.planner.sweep.machines import Asked, count_machines, machines_of
from gnnplan.planner.sweep.result import Point, marked
from gnnplan.profiles.errors import UserError

OnPoint = Callable[[int, int], None]


@dataclass(frozen=True)
class Swept:
    """A point with what it was made of, so that the real search can be asked about it."""

    point: Point
    job: Job
    asked: Asked


def sweep_points(
    job: Job, sweep: Sweep, statistics: Statistics, on_point: OnPoint = lambda done, total: None
) -> list[Swept]:
    """Every point of a sweep, those on the Pareto front of their model marked.

    Args:
        on_point: told how many points are done, of how many.

    Raises:
        UserError: more points than anyone waits for, or a model setting that cannot be built.
    """
    jobs, is_batched = list(model_settings(job, sweep.model)), job.mini_batch is not None
    check_count(count_machines(sweep) * len(jobs), sweep.name)
    asked, pricer = list(machines_of(sweep, with_cores=is_batched)), Pricer(statistics, Structures())
    total = len(asked) * len(jobs)
    found: list[Swept] = []
    for words, each in jobs:
        of_model = []
        for machine in asked:
            of_model.append(_swept(words, each, machine, pricer, sweep.host))
            on_point(len(found) + len(of_model), total)
        found += marked(of_model)
    return found


def model_settings(job: Job, axes: ModelAxes) -> Iterator[tuple[str, Job]]:
    """Every setting of the model in words, with its job; heads are of attention alone."""
    names = [name for name in ModelAxes.model_fields if getattr(axes, name)]
    seen: set[str] = set()  # of other kinds all heads are one setting
    for values in product(*(getattr(axes, name) for name in names)):
        changed = {**job.model.model_dump(), **dict(zip(names, values, strict=True))}
        model = Job.parse({**job.model_dump(mode="json"), "model": changed}, where="model of the sweep").model
        words = f"{model.kind} {model.num_layers} x {model.hidden_channels}"
        words += f", {model.heads} heads" if model.kind in ("gat", "decoupled_gat") else ""
        if words not in seen:
            seen.add(words)
            yield words, job.model_copy(update={"model": model})


def _swept(words: str, job: Job, asked: Asked, pricer: Pricer, rates: HostRates) -> Swept:
    outcome = _of_batches(job, asked, pricer, rates) if job.mini_batch else _of_full_batch(job, asked, pricer)
    return Swept(_point(words, job, asked, outcome), job, asked)


@dataclass(frozen=True)
class _Outcome:
    """What a job takes on a machine, however it trains."""

    epoch_s: float
    peak_bytes: int
    headroom: float
    missing_bytes: int
    techniques: tuple[str, ...]
    binds: str


def _of_full_batch(job: Job, asked: Asked, pricer: Pricer) -> _Outcome:
    best = fastest(pricer.candidates(job, asked.machine), job.objective.memory_margin)
    computing, travelling = best.busy_s().max(), best.busy_s("communicate").max()
    names = tuple(choice.technique for choice in best.choices)
    peak = max(each.peak_bytes for each in best.memory)
    binds = "compute" if computing >= travelling else "links"
    return _Outcome(best.epoch_s, peak, best.headroom, best.missing_bytes, names, binds)


def _of_batches(job: Job, asked: Asked, pricer: Pricer, rates: HostRates) -> _Outcome:
    if not asked.cores_per_worker:
        raise UserError(f"{asked.name}: the cores of its host are not known; give the machines cores_per_host")
    statistics, structures = pricer.statistics, pricer.structures
    best = price_batches(job, asked.machine, statistics, structures, rates, asked.cores_per_worker)
    names = ("mini_batch", best.found.route)
    binds = _BINDS[best.found.bound.set_by]
    return _Outcome(best.epoch_s, best.peak_bytes, best.headroom, best.missing_bytes, names, binds)


_BINDS = {"CPU": "cores", "PCIe": "links", "GPU": "compute"}


def _point(words: str, job: Job, asked: Asked, outcome: _Outcome) -> Point:
    job_s, price = job.training.epochs * outcome.epoch_s, asked.machine.price_per_hour
    short = job.objective.memory_margin - outcome.headroom  # as a share of a worker's memory
    fits = short <= 0
    return Point(
        machine=asked.name,
        device=asked.device,
        num_hosts=asked.num_hosts,
        per_host=asked.per_host,
        num_workers=asked.machine.num_workers,
        memory_bytes=asked.memory_bytes,
        network_bytes_per_s=asked.network_bytes_per_s,
        model=words,
        techniques=outcome.techniques,
        epoch_s=outcome.epoch_s,
        job_s=job_s,
        price_per_hour=price,
        dollars=price * job_s / 3600 if asked.is_priced else None,
        watts=asked.watts,
        kilowatt_hours=None if asked.watts is None else asked.watts * job_s / 3.6e6,
        peak_bytes=outcome.peak_bytes,
        headroom=outcome.headroom,
        missing_bytes=0 if fits else max(outcome.missing_bytes, round(short * asked.memory_bytes)),
        fits=fits,
        binds=outcome.binds if fits else "memory",
    )
