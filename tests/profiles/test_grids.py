"""The grids the profiler times: full, ascending, and wide enough for every operator."""

from math import prod

import pytest

from profiles.grids import GRIDS
from profiles.operators import OPERATORS

BY_NAME = pytest.mark.parametrize("name", sorted(GRIDS))


@BY_NAME
def test_every_operator_has_every_combination(name):
    """A grid names each operator's axes, and lists each combination of their values once."""
    grid = GRIDS[name]
    for operator, spec in OPERATORS.items():
        shapes = grid.shapes(operator)
        assert len(set(shapes)) == len(shapes) == prod(len(grid.axes[axis]) for axis in spec.axes)
        assert all(len(shape) == len(spec.axes) for shape in shapes)


@BY_NAME
def test_values_ascend_and_are_positive(name):
    """Each axis and the collective sizes are strictly ascending positive numbers, two at least."""
    grid = GRIDS[name]
    for values in (*grid.axes.values(), grid.collective_bytes):
        assert len(values) >= 2
        assert values[0] > 0
        assert list(values) == sorted(set(values))


@BY_NAME
def test_first_shape_is_the_smallest(name):
    """The first shape of an operator is minimal on every axis, as the base memory is measured on it."""
    grid = GRIDS[name]
    for operator, spec in OPERATORS.items():
        assert grid.shapes(operator)[0] == tuple(min(grid.axes[axis]) for axis in spec.axes)


def test_quick_grid_times_fewer_points_for_less_time():
    """The quick grid costs less than half of the full one's seconds."""
    cost = {
        name: sum(len(GRIDS[name].shapes(operator)) for operator in OPERATORS) * GRIDS[name].budget_s
        for name in ("quick", "full")
    }
    assert cost["quick"] < cost["full"] / 2


def test_smallest_collective_holds_one_number():
    """Every grid starts its collectives at one float, whose time is the latency."""
    assert all(grid.collective_bytes[0] == 4.0 for grid in GRIDS.values())
