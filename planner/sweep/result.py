"""What a sweep found: points, the Pareto front among them, and the least machine that fits."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, ClassVar

from pydantic import Field

from gnnplan.profiles.contract import Contract, Document

if TYPE_CHECKING:
    from gnnplan.planner.sweep.points import Swept


class Point(Contract):
    """A model setting on a machine. Seconds and bytes are predictions; those of the job are of all its epochs.

    Args:
        device, num_hosts, per_host: of equal devices; of a cluster file all names, and a mean.
        memory_bytes: of a device, the least.
        price_per_hour: dollars, 0 where it is free, or where there is no price: then `dollars` is None.
        techniques: that take part, the layout first.
        headroom: least share of a worker's memory that is left, negative where there is too little.
        missing_bytes: that the worker, or the host, lacks that lacks most; 0 where it fits.
        fits: there is enough, and the job's memory margin stays free.
        binds: what an epoch mostly waits for: compute, links, cores that make batches, or memory that is missing.
        is_on_front: no machine that fits is faster and as cheap, or cheaper and as fast, for this model.
        checked_epoch_s: of the plan that the search finds on the graph itself, where it was asked.
    """

    machine: str
    device: str
    num_hosts: int
    per_host: int
    num_workers: int
    memory_bytes: int
    network_bytes_per_s: float | None
    model: str
    techniques: tuple[str, ...]
    epoch_s: float
    job_s: float
    price_per_hour: float
    dollars: float | None
    watts: float | None
    kilowatt_hours: float | None
    peak_bytes: int
    headroom: float
    missing_bytes: int = Field(default=0, ge=0)
    fits: bool
    binds: str
    is_on_front: bool = False
    checked_epoch_s: float | None = None


class Least(Contract):
    """Of one model setting the machines that one asks for first, by name (None: none fits).

    Args:
        smallest: fewest devices, of these the least memory in all, of these the fastest.
        cheapest: fewest dollars for the whole job, where machines have prices.
        fastest: shortest epochs.
        nearest: where none fits, the one that lacks least, and how many bytes on a device.
    """

    model: str
    smallest: str | None
    cheapest: str | None
    fastest: str | None
    nearest: str | None = None
    missing_bytes: int = 0


class SweepResult(Document):
    """All of a sweep, as `sweep.json` has it.

    Args:
        halos: where halo sizes come from, in words.
        points_per_minute: priced in so much processor time of one core.
    """

    KIND: ClassVar[str] = "sweep_result"

    name: str
    graph: str
    epochs: int
    halos: str
    points: tuple[Point, ...]
    least: tuple[Least, ...]
    points_per_minute: float = Field(ge=0)


def marked(of_model: Sequence[Swept]) -> list[Swept]:
    """The points of one model, those marked that no other one beats in seconds and in what it costs.

    What it costs is dollars for the job, and where not all machines have a price, devices.
    """
    fitting = [each.point for each in of_model if each.point.fits]
    has_prices = all(point.dollars is not None for point in fitting)

    def cost(point: Point) -> float:
        return (point.dollars or 0.0) if has_prices else float(point.num_workers)

    last, front = (float("inf"), float("inf")), set()
    for point in sorted(fitting, key=lambda point: (point.epoch_s, cost(point))):
        if cost(point) < last[1] or (point.epoch_s, cost(point)) == last:
            last = (point.epoch_s, cost(point))
            front.add(point.machine)
    return [
        replace(each, point=each.point.model_copy(update={"is_on_front": each.point.machine in front}))
        for each in of_model
    ]


def least_of(points: Iterable[Point]) -> tuple[Least, ...]:
    """By model setting, in their order."""
    by_model: dict[str, list[Point]] = {}
    for point in points:
        by_model.setdefault(point.model, []).append(point)
    return tuple(_least(model, each) for model, each in by_model.items())


def _least(model: str, points: Sequence[Point]) -> Least:
    fitting = [point for point in points if point.fits]
    if not fitting:
        nearest = min(points, key=lambda p: (p.missing_bytes, -p.headroom))
        return Least(
            model=model,
            smallest=None,
            cheapest=None,
            fastest=None,
            nearest=nearest.machine,
            missing_bytes=nearest.missing_bytes,
        )
    smallest = min(fitting, key=lambda p: (p.num_workers, p.num_workers * p.memory_bytes, p.epoch_s))
    fastest = min(fitting, key=lambda p: p.epoch_s)
    priced = [point for point in fitting if point.dollars is not None]
    cheapest = min(priced, key=lambda p: (p.dollars, p.epoch_s)) if priced else None
    return Least(
        model=model,
        smallest=smallest.machine,
        cheapest=cheapest.machine if cheapest else None,
        fastest=fastest.machine,
    )
