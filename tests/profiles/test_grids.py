"""The grids the profiler times: full, ascending, and wide enough for every operator."""

from math import prod

import pytest

from gnnplan.profiles.grids import GRIDS, temporary_bytes
from gnnplan.profiles.operators import OPERATORS
from gnnplan.profiles.over_edges import OF_ROWS, OF_SCORES

BY_NAME = pytest.mark.parametrize("name", sorted(GRIDS))


@BY_NAME
def test_every_operator_has_every_combination(name):
    """A grid names each operator's axes, and lists each combination of their values once."""
    grid = GRIDS[name]
    for operator, spec in OPERATORS.items():
        shapes = grid.shapes(operator)
        assert tuple(grid.axes_of(operator)) == spec.axes
        assert len(set(shapes)) == len(shapes) == prod(map(len, grid.axes_of(operator).values()))
        assert all(len(shape) == len(spec.axes) for shape in shapes)


@BY_NAME
def test_values_ascend_and_are_positive(name):
    """Each axis and the collective sizes are strictly ascending positive numbers, two at least."""
    grid = GRIDS[name]
    own = [values for axes in grid.own_axes.values() for values in axes.values()]
    for values in (*grid.axes.values(), *own, grid.collective_bytes):
        assert len(values) >= 2
        assert values[0] > 0
        assert list(values) == sorted(set(values))


@BY_NAME
def test_first_shape_is_the_smallest(name):
    """The first shape of an operator is minimal on every axis, as the base memory is measured on it."""
    grid = GRIDS[name]
    for operator, spec in OPERATORS.items():
        assert grid.shapes(operator)[0] == tuple(min(values) for values in grid.axes_of(operator).values())
        assert len(grid.shapes(operator)[0]) == len(spec.axes)


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


OVER_EDGES = {*OF_ROWS, *OF_SCORES}
ATTENTION = pytest.mark.parametrize("operator", sorted(OVER_EDGES))
ON_CUDA = pytest.mark.parametrize("name", ["quick", "cuda"])


@ATTENTION
@ON_CUDA
def test_attention_on_a_gpu_makes_no_temporary_beyond_8_gib(name, operator):
    """It makes a row for every edge, which the shapes of other operators would have no GPU hold."""
    assert max(map(temporary_bytes, GRIDS[name].shapes(operator))) <= 8 * 2**30


@ATTENTION
@ON_CUDA
@pytest.mark.parametrize("memory_gib", [4, 16, 24, 80])
def test_a_smaller_gpu_times_attention_over_fewer_rows(name, operator, memory_gib):
    """Four of its temporaries fit; what is left is a full grid, and other operators have theirs."""
    whole = GRIDS[name]
    grid = whole.within(memory_gib * 2**30)
    assert 4 * max(map(temporary_bytes, grid.shapes(operator))) <= memory_gib * 2**30
    fewer, all_of = grid.axes_of(operator), whole.axes_of(operator)
    assert len(fewer["num_rows"]) >= 2
    assert fewer["num_rows"] == all_of["num_rows"][: len(fewer["num_rows"])]
    assert fewer | {"num_rows": all_of["num_rows"]} == all_of
    for other in OPERATORS:
        assert other in OVER_EDGES or grid.shapes(other) == whole.shapes(other)


@ON_CUDA
def test_a_large_gpu_times_all_of_a_grid(name):
    """Forty gigabytes are enough."""
    grid = GRIDS[name].within(40 * 2**30)
    assert all(grid.shapes(operator) == GRIDS[name].shapes(operator) for operator in OPERATORS)
