"""Measured tables of collectives, as they would be with better links."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from gnnplan.planner.cluster import Placement, WorkerPlace
from gnnplan.planner.measured_collectives import MeasuredCollectives
from gnnplan.profiles.curves import Curve
from gnnplan.profiles.machine import CollectiveTable, OperatorTable

Scale = Callable[[Sequence[WorkerPlace]], tuple[float, float]]
"""By what factor the latency of a table is less and its bytes a second are more.

Its argument has a worker of every host whose link the collective passes: none where it stays on one host.
"""


def is_measured(placement: Placement) -> bool:
    """Whether collectives are priced by tables, and not by links."""
    return MeasuredCollectives.of(placement) is not None


def with_rescaled_tables(placement: Placement, scale: Scale) -> Placement:
    """A placement whose collectives were measured, with other tables."""
    measured = MeasuredCollectives.of(placement)
    assert measured
    first_of = {worker.host_index: worker for worker in reversed(placement.workers)}
    at_place = {place: first_of[host] for host, place in measured.places.items()}
    profiles = dict(placement.profiles)
    for own in first_of.values():
        profile = placement.profiles[own.profile]
        tables = (_rescaled(table, *scale(_passed(table, own, at_place))) for table in profile.collectives)
        profiles[own.profile] = profile.model_copy(update={"collectives": tuple(tables)})
    return placement.model_copy(update={"profiles": profiles})


def _passed(table: CollectiveTable, own: WorkerPlace, at_place: dict[int, WorkerPlace]) -> list[WorkerPlace]:
    if len(at_place) == 1:
        return []
    if table.collective == "all_to_all_port":
        return [own]
    if table.collective == "all_to_all_pair":
        assert table.peer is not None
        peer = at_place.get(table.peer)  # None: it was profiled, and takes no part
        return [] if peer is own else [own, *([peer] if peer else [])]
    return list(at_place.values())


def _rescaled(table: CollectiveTable, latency_factor: float, rate_factor: float) -> CollectiveTable:
    if (latency_factor, rate_factor) == (1.0, 1.0):
        return table
    fixed_s = Curve.from_table(table.table).fixed_s
    points = []
    for point in table.table.points:
        of_call_s = min(fixed_s, point.median_s)
        seconds = of_call_s / latency_factor + (point.median_s - of_call_s) / rate_factor
        points.append(point.model_copy(update={"median_s": seconds}))
    return table.model_copy(update={"table": OperatorTable(axes=table.table.axes, points=tuple(points))})
