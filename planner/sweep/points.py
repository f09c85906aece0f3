"""The points of a sweep: a job's model setting on a machine, priced."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import product

from gnnplan.planner.job import Job
from gnnplan.planner.statistics.contract import Statistics
from gnnplan.planner.statistics.price import Priced, Pricer, fastest
from gnnplan.planner.statistics.stand_in import Structures
from gnnplan.planner.sweep.contract import ModelAxes, Sweep, check_count
from gnnplan.planner.sweep.machines import Asked, count_machines, machines_of
from gnnplan.planner.sweep.result import Point, marked

OnPoint = Callable[[int, int], None]


@dataclass(frozen=True)
class Swept:
    """A point with what it was made of, so that the real search can be asked about it."""

    point: Point
    job: Job
    asked: Asked
    best: Priced


def sweep_points(
    job: Job, sweep: Sweep, statistics: Statistics, on_point: OnPoint = lambda done, total: None
) -> list[Swept]:
    """Every point of a sweep, those on the Pareto front of their model marked.

    Args:
        on_point: told how many points are done, of how many.

    Raises:
        UserError: more points than anyone waits for, or a model setting that cannot be built.
    """
    jobs = list(model_settings(job, sweep.model))
    check_count(count_machines(sweep) * len(jobs), sweep.name)
    asked, pricer = list(machines_of(sweep)), Pricer(statistics, Structures())
    total = len(asked) * len(jobs)
    found: list[Swept] = []
    for words, each in jobs:
        of_model = []
        for machine in asked:
            of_model.append(_swept(words, each, machine, pricer))
            on_point(len(found) + len(of_model), total)
        found += marked(of_model)
    return found


def model_settings(job: Job, axes: ModelAxes) -> Iterator[tuple[str, Job]]:
    """Every setting of the model in words, with its job; heads are of attention alone."""
    names = [name for name in ModelAxes.model_fields if getattr(axes, name)]
    seen: set[str] = set()
    for values in product(*(getattr(axes, name) for name in names)):
        changed = {**job.model.model_dump(), **dict(zip(names, values, strict=True))}
        model = Job.parse({**job.model_dump(mode="json"), "model": changed}, where="model of the sweep").model
        words = f"{model.kind} {model.num_layers} x {model.hidden_channels}"
        words += f", {model.heads} heads" if model.kind == "gat" else ""
        if words not in seen:
            seen.add(words)
            yield words, job.model_copy(update={"model": model})


def _swept(words: str, job: Job, asked: Asked, pricer: Pricer) -> Swept:
    best = fastest(pricer.candidates(job, asked.machine))
    return Swept(_point(words, job, asked, best), job, asked, best)


def _point(words: str, job: Job, asked: Asked, best: Priced) -> Point:
    job_s, price = job.training.epochs * best.epoch_s, asked.machine.price_per_hour
    return Point(
        machine=asked.name,
        device=asked.device,
        num_hosts=asked.num_hosts,
        per_host=asked.per_host,
        num_workers=asked.machine.num_workers,
        memory_bytes=asked.memory_bytes,
        network_bytes_per_s=asked.network_bytes_per_s,
        model=words,
        techniques=tuple(choice.technique for choice in best.choices),
        epoch_s=best.epoch_s,
        job_s=job_s,
        price_per_hour=price,
        dollars=price * job_s / 3600 if price else None,
        watts=asked.watts,
        kilowatt_hours=None if asked.watts is None else asked.watts * job_s / 3.6e6,
        peak_bytes=max(each.peak_bytes for each in best.memory),
        headroom=best.headroom,
        fits=best.fits,
        binds=_binds(best),
    )


def _binds(best: Priced) -> str:
    """What an epoch mostly waits for."""
    if not best.fits:
        return "memory"
    computing, travelling = best.busy_s().max(), best.busy_s("communicate").max()
    return "compute" if computing >= travelling else "links"
