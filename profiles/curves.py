"""Measured points to seconds: multilinear interpolation, and never a silent extrapolation."""

from __future__ import annotations

from bisect import bisect_right
from dataclasses import dataclass
from itertools import product

from profiles.machine import MachineProfile, OperatorTable


@dataclass(frozen=True, slots=True)
class Estimate:
    """Seconds of one call; `unprofiled` where the shape lies outside what the profile holds."""

    seconds: float
    spread_s: float
    unprofiled: bool


@dataclass(frozen=True)
class Curve:
    """Seconds of one operator over a rectilinear grid.

    Between grid points it interpolates linearly along every axis, which is exact for
    `a + b * m * k * n`. Above the grid it goes on along the slope of the last two points, below it
    along that of the first two but never under the shape's share of the smallest point's seconds;
    both set `unprofiled`.
    """

    axes: tuple[tuple[float, ...], ...]
    values: dict[tuple[int, ...], tuple[float, float]]

    @classmethod
    def from_table(cls, table: OperatorTable) -> Curve:
        """The curve through a table's points."""
        axes = tuple(tuple(sorted({p.shape[axis] for p in table.points})) for axis in range(len(table.axes)))
        index = [{value: i for i, value in enumerate(values)} for values in axes]
        values = {
            tuple(index[axis][value] for axis, value in enumerate(point.shape)): (point.median_s, point.spread_s)
            for point in table.points
        }
        return cls(axes, values)

    def seconds(self, shape: tuple[float, ...]) -> Estimate:
        """Seconds of a shape; a shape with nothing to do takes none."""
        assert len(shape) == len(self.axes), (shape, len(self.axes))
        if min(shape) <= 0:
            return Estimate(0.0, 0.0, False)
        corners, unprofiled = [], False
        for values, coordinate in zip(self.axes, shape):
            lower, share = _place(values, coordinate)
            unprofiled |= not values[0] <= coordinate <= values[-1]
            corners.append(((lower, 1.0 - share), (lower + 1, share)) if share else ((lower, 1.0),))
        seconds = spread_s = 0.0
        for corner in product(*corners):
            weight = 1.0
            for _, part in corner:
                weight *= part
            median, spread = self.values[tuple(index for index, _ in corner)]
            seconds += weight * median
            spread_s += weight * spread
        return Estimate(max(seconds, 0.0), max(spread_s, 0.0), unprofiled)


def _place(values: tuple[float, ...], coordinate: float) -> tuple[int, float]:
    """Index of the grid value at or below, and how far on to the next; outside, on the edge's slope."""
    if len(values) == 1:
        return 0, 0.0
    lower = min(max(bisect_right(values, coordinate) - 1, 0), len(values) - 2)
    return lower, (coordinate - values[lower]) / (values[lower + 1] - values[lower])


def collective_seconds(profile: MachineProfile, collective: str, num_workers: int, num_bytes: float) -> Estimate | None:
    """Seconds of a collective among exactly `num_workers`, or None where it was not measured."""
    for entry in profile.collectives:
        if entry.collective == collective and entry.num_workers == num_workers:
            return Curve.from_table(entry.table).seconds((num_bytes,))
    return None
