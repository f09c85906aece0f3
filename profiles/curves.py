"""Measured points to seconds: multilinear interpolation, and never a silent extrapolation."""

from __future__ import annotations

from bisect import bisect_right
from dataclasses import dataclass
from functools import cached_property
from math import prod

from gnnplan.profiles.machine import MachineProfile, OperatorTable


@dataclass(frozen=True, slots=True)
class Estimate:
    """Seconds of one call; `unprofiled` where the shape lies outside what the profile holds.

    `parts` names the profiled operators whose seconds it is the sum of.
    """

    seconds: float
    spread_s: float
    unprofiled: bool
    parts: tuple[tuple[str, float], ...] = ()

    def times(self, factor: float) -> Estimate:
        """Of so many calls, or of such a part of one."""
        parts = tuple((operator, seconds * factor) for operator, seconds in self.parts)
        return Estimate(self.seconds * factor, self.spread_s * factor, self.unprofiled, parts)


_NOTHING = Estimate(0.0, 0.0, False)
_BY_UNIT = ("degree", "width")


@dataclass(frozen=True)
class Curve:
    """Seconds of one operator over a rectilinear grid.

    Between grid points it interpolates linearly along every axis, which is exact for
    `a + b * m * k * n`. Outside the grid the estimate says `unprofiled`, and along that axis:

    - above, it goes on along the slope of the last two points, and never falls below the last; but an edge of a row
      and a column take what they take in the last point, for of two points that vary a slope says less;
    - below, it goes on along the slope of the first two points, kept between the first point's
      seconds and the shape's share of them (half the rows: at least half the time);
    - where the axis has one value only, nothing is scaled.

    With `leaves_caches`, the seconds of a unit of the first axis (a row, an element) are interpolated linearly instead
    where they grow from one grid value to the next: calls grow out of a cache little by little, and along a straight
    line between what fits and what does not all would seem to be out at once (`python -m benchmarks interpolation`).
    Above the grid such a unit takes what it takes in the last point.

    Args:
        axes: the grid values of each axis, ascending.
        medians_s, spreads_s: one value per grid point, last axis fastest.
        by_unit: of each axis, whether seconds above it are in proportion (empty: of none).
    """

    axes: tuple[tuple[float, ...], ...]
    medians_s: tuple[float, ...]
    spreads_s: tuple[float, ...]
    leaves_caches: bool = False
    by_unit: tuple[bool, ...] = ()

    @classmethod
    def from_table(cls, table: OperatorTable, *, leaves_caches: bool = False) -> Curve:
        """The curve through a table's points, given in any order."""
        axes = tuple(tuple(sorted({p.shape[axis] for p in table.points})) for axis in range(len(table.axes)))
        ordered = sorted(table.points, key=lambda point: point.shape)
        medians_s, spreads_s = tuple(p.median_s for p in ordered), tuple(p.spread_s for p in ordered)
        return cls(axes, medians_s, spreads_s, leaves_caches, tuple(name in _BY_UNIT for name in table.axes))

    @cached_property
    def fixed_s(self) -> float:
        """What a call takes however small: where the line through the two least sizes meets zero, at the least rest."""
        sizes, step = self.axes[0], prod(len(values) for values in self.axes[1:])
        if len(sizes) == 1:
            return 0.0
        first_s, second_s = self.medians_s[0], self.medians_s[step]
        met_s = first_s - sizes[0] * (second_s - first_s) / (sizes[1] - sizes[0])
        return min(max(met_s, 0.0), first_s)

    def seconds(self, shape: tuple[float, ...]) -> Estimate:
        """Seconds of a shape, one coordinate per axis; a shape with nothing to do takes none."""
        assert len(shape) == len(self.axes), (shape, len(self.axes))
        if min(shape) <= 0:
            return _NOTHING
        offsets, places, unprofiled = [0], [], False
        for values, coordinate, by_unit in zip(self.axes, shape, self.by_unit or (False,) * len(shape)):
            place = _place(values, coordinate, by_unit=by_unit)
            places.append(place)
            unprofiled |= not values[0] <= coordinate <= values[-1]
            corners = (place.lower, place.lower + 1) if place.share else (place.lower,)
            offsets = [offset * len(values) + corner for offset in offsets for corner in corners]
        median_s = _fold([self.medians_s[offset] for offset in offsets], places)
        spread_s = _fold([self.spreads_s[offset] for offset in offsets], places)
        if self.leaves_caches and places[0].share > 0 and places[0].share != 1:
            half = len(offsets) // 2
            ends_s = [_fold([self.medians_s[o] for o in part], places[1:]) for part in (offsets[:half], offsets[half:])]
            median_s = min(median_s, self._by_unit(shape[0], places[0], *ends_s))
        return Estimate(median_s, spread_s, unprofiled)

    def _by_unit(self, size: float, place: _Place, low_s: float, high_s: float) -> float:
        """Seconds of a call between the two of the first axis that take `low_s` and `high_s`, or above them."""
        values, fixed_s = self.axes[0], min(self.fixed_s, low_s, high_s)
        low, high = values[place.lower], values[place.lower + 1]
        units_s = (low_s - fixed_s) / low, (high_s - fixed_s) / high
        return fixed_s + size * (_between(*units_s, place) if place.share < 1 else units_s[1])


@dataclass(frozen=True, slots=True)
class _Place:
    """Where a coordinate stands on an axis.

    Args:
        lower: index of the grid value the place is counted from.
        share: of the way to the next value; below 0 or above 1 outside the grid.
        floor: least part of the first point's seconds, below the grid.
        units: as many times the last point's seconds, above the grid (0: along the slope).
    """

    lower: int
    share: float
    floor: float
    units: float = 0.0


def _place(values: tuple[float, ...], coordinate: float, *, by_unit: bool) -> _Place:
    if len(values) == 1:
        return _Place(0, 0.0, 0.0)
    lower = min(max(bisect_right(values, coordinate) - 1, 0), len(values) - 2)
    share = (coordinate - values[lower]) / (values[lower + 1] - values[lower])
    units = coordinate / values[-1] if share > 1 and by_unit else 0.0
    return _Place(lower, share, coordinate / values[0] if share < 0 else 0.0, units)


def _fold(corners: list[float], places: list[_Place]) -> float:
    """Reduces the corners of a grid cell axis by axis, the last axis first."""
    for place in reversed(places):
        if place.share:
            corners = [_between(low, high, place) for low, high in zip(corners[::2], corners[1::2])]
    return corners[0]


def _between(low: float, high: float, place: _Place) -> float:
    share = place.share
    if share < 0:
        return min(max(low + share * (high - low), low * place.floor), low)
    if place.units:
        return high * place.units
    if share > 1:
        return max(low + share * (high - low), high)
    return low * (1 - share) + high * share


def collective_curve(
    profile: MachineProfile, collective: str, num_workers: int, peer: int | None = None
) -> Curve | None:
    """Seconds over bytes of a collective among exactly `num_workers`, or None where it was not measured.

    Args:
        peer: of a pair, as in its table.
    """
    for entry in profile.collectives:
        if (entry.collective, entry.num_workers, entry.peer) == (collective, num_workers, peer):
            return Curve.from_table(entry.table)
    return None


def collective_processor(profile: MachineProfile, collective: str, num_workers: int, num_bytes: float) -> Estimate:
    """Processor seconds a collective costs each of exactly `num_workers`, none where they were not measured."""
    for entry in profile.collectives:
        if entry.collective == collective and entry.num_workers == num_workers and entry.processor:
            return Curve.from_table(entry.processor).seconds((num_bytes,))
    return _NOTHING
