"""Interpolation: exact where it can be, monotone, never negative, never silent outside the grid."""

from itertools import product

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gnnplan.profiles.curves import Curve, Estimate, collective_curve
from gnnplan.profiles.machine import CollectiveTable, MachineProfile, OperatorTable, Point

AXIS = st.lists(st.integers(1, 10_000), min_size=1, max_size=4, unique=True).map(
    lambda values: tuple(float(value) for value in sorted(values))
)
AXES = st.lists(AXIS, min_size=1, max_size=3).map(tuple)
SHARE = st.floats(0, 1)


def make_table(axes, seconds_of, spread_of=lambda *_: 0.0):
    points = tuple(
        Point(shape=shape, median_s=seconds_of(*shape), spread_s=spread_of(*shape)) for shape in product(*axes)
    )
    return OperatorTable(axes=tuple(f"axis_{i}" for i in range(len(axes))), points=points)


def make_curve(axes, seconds_of, spread_of=lambda *_: 0.0, *, leaves_caches=False):
    return Curve.from_table(make_table(axes, seconds_of, spread_of), leaves_caches=leaves_caches)


BOTH_WAYS = pytest.mark.parametrize("leaves_caches", [False, True])


def inside(axes, shares):
    return tuple(values[0] + share * (values[-1] - values[0]) for values, share in zip(axes, shares))


@st.composite
def grids(draw):
    axes = draw(AXES)
    shapes = list(product(*axes))
    seconds = draw(st.lists(st.floats(0, 1e3), min_size=len(shapes), max_size=len(shapes)))
    return axes, dict(zip(shapes, seconds))


@BOTH_WAYS
@given(grids())
def test_grid_points_come_back_exactly(leaves_caches, grid):
    axes, seconds = grid
    curve = make_curve(axes, lambda *shape: seconds[shape], leaves_caches=leaves_caches)
    for shape, expected in seconds.items():
        assert curve.seconds(shape) == Estimate(expected, 0.0, False)


@BOTH_WAYS
@given(AXES, st.lists(SHARE, min_size=3, max_size=3), st.floats(0, 1), st.floats(1e-9, 1e-6))
def test_multilinear_functions_are_exact_between_points(leaves_caches, axes, shares, base_s, slope):
    """Work is the product of the extents, so `a + b m k n` must come out exactly."""

    def seconds_of(*shape):
        work = 1.0
        for extent in shape:
            work *= extent
        return base_s + slope * work

    shape = inside(axes, shares)
    curve = make_curve(axes, seconds_of, leaves_caches=leaves_caches)
    assert curve.seconds(shape).seconds == pytest.approx(seconds_of(*shape), rel=1e-6)


@BOTH_WAYS
@given(AXES, st.data())
def test_monotone_points_give_monotone_seconds(leaves_caches, axes, data):
    shapes = list(product(*axes))
    raw = dict(zip(shapes, data.draw(st.lists(st.floats(0, 10), min_size=len(shapes), max_size=len(shapes)))))

    def seconds_of(*shape):
        return max(raw[other] for other in shapes if all(o <= s for o, s in zip(other, shape)))

    curve = make_curve(axes, seconds_of, leaves_caches=leaves_caches)
    shares = st.lists(SHARE, min_size=len(axes), max_size=len(axes))
    low, high = data.draw(shares), data.draw(shares)
    low, high = [min(pair) for pair in zip(low, high)], [max(pair) for pair in zip(low, high)]
    assert curve.seconds(inside(axes, low)).seconds <= curve.seconds(inside(axes, high)).seconds + 1e-9


def test_calls_leave_a_cache_little_by_little():
    """Between 4 units a second each and 10 of two seconds each: at 7 of one and a half; the fixed second beside."""
    seconds = {1.0: 2.0, 4.0: 5.0, 10.0: 21.0}
    curve = make_curve(((1.0, 4.0, 10.0),), seconds.__getitem__, leaves_caches=True)
    assert curve.fixed_s == 1.0
    assert curve.seconds((7.0,)).seconds == pytest.approx(1.0 + 7 * 1.5)
    assert curve.seconds((20.0,)).seconds == pytest.approx(1.0 + 20 * 2.0)  # all are out of it
    assert make_curve(((1.0, 4.0, 10.0),), seconds.__getitem__).seconds((7.0,)).seconds == pytest.approx(13.0)


def test_where_units_take_less_in_larger_calls_the_line_is_straight():
    """As for products that get more efficient; outside the grid too."""
    seconds = {1.0: 2.0, 4.0: 5.0, 10.0: 8.0}
    both = [make_curve(((1.0, 4.0, 10.0),), seconds.__getitem__, leaves_caches=leaves) for leaves in (False, True)]
    for size in (0.5, 2.0, 6.0, 9.0, 30.0):
        assert both[0].seconds((size,)) == both[1].seconds((size,))


@given(grids(), st.lists(st.floats(0.001, 1e6), min_size=3, max_size=3))
def test_never_negative_and_flagged_exactly_outside(grid, coordinates):
    axes, seconds = grid
    shape = tuple(coordinates[: len(axes)])
    curve = make_curve(axes, lambda *point: seconds[point], lambda *point: seconds[point] / 2)
    estimate = curve.seconds(shape)
    assert estimate.seconds >= 0
    assert estimate.spread_s >= 0
    outside = any(not values[0] <= extent <= values[-1] for values, extent in zip(axes, shape))
    assert estimate.unprofiled == outside


@given(st.floats(1, 1e4), st.floats(1, 1e4))
def test_one_axis_is_monotone_far_outside_too(a, b):
    curve = make_curve(((100.0, 200.0, 1000.0),), lambda n: n**1.5)
    low, high = sorted((a, b))
    assert curve.seconds((low,)).seconds <= curve.seconds((high,)).seconds * (1 + 1e-12)


def test_above_the_grid_goes_on_along_the_last_slope():
    curve = make_curve(((10.0, 20.0, 40.0),), lambda n: 1.0 + 0.1 * n)
    assert curve.seconds((100.0,)) == Estimate(pytest.approx(11.0), 0.0, True)


@pytest.mark.parametrize("axis", ["degree", "width"])
def test_above_the_grid_an_edge_and_a_column_take_as_long(axis):
    """Twice the width takes twice as long, whatever the two last widths that were timed vary by."""
    of_width = {1.0: 2.0, 4.0: 5.0, 8.0: 6.0}
    table = make_table(((10.0, 20.0), tuple(of_width)), lambda n, width: n * of_width[width])
    curve = Curve.from_table(table.model_copy(update={"axes": ("num_rows", axis)}))
    assert curve.seconds((10.0, 24.0)) == Estimate(pytest.approx(10 * 18.0), 0.0, True)
    assert curve.seconds((40.0, 24.0)) == Estimate(pytest.approx(40 * 18.0), 0.0, True)


def test_above_the_grid_a_falling_slope_is_not_followed():
    curve = make_curve(((10.0, 20.0),), lambda n: 3.0 - 0.1 * n)
    assert curve.seconds((100.0,)) == Estimate(1.0, 0.0, True)


def test_below_the_grid_keeps_the_fixed_part():
    curve = make_curve(((10.0, 20.0),), lambda n: 1.0 + 0.1 * n)
    assert curve.seconds((1.0,)) == Estimate(pytest.approx(1.1), 0.0, True)


def test_below_the_grid_is_at_least_the_shapes_share_of_the_first_point():
    """A steep first slope would reach zero or less; half the rows cost at least half the time."""
    curve = make_curve(((10.0, 20.0),), lambda n: n**3)
    assert curve.seconds((5.0,)) == Estimate(500.0, 0.0, True)


def test_below_the_grid_is_at_most_the_first_point():
    curve = make_curve(((10.0, 20.0),), lambda n: 3.0 - 0.1 * n)
    assert curve.seconds((5.0,)) == Estimate(2.0, 0.0, True)


def test_an_axis_with_one_value_scales_nothing_and_says_so():
    curve = make_curve(((10.0,), (1.0, 3.0)), lambda n, width: n * width)
    assert curve.seconds((10.0, 2.0)) == Estimate(20.0, 0.0, False)
    assert curve.seconds((99.0, 2.0)) == Estimate(20.0, 0.0, True)


@pytest.mark.parametrize("shape", [(0.0, 4.0), (4.0, 0.0), (0.0, 1e9)])
def test_nothing_to_do_takes_no_time(shape):
    curve = make_curve(((10.0, 20.0), (1.0, 3.0)), lambda n, width: n * width)
    assert curve.seconds(shape) == Estimate(0.0, 0.0, False)


def test_spread_is_interpolated_like_the_median():
    curve = make_curve(((10.0, 20.0),), lambda n: n, lambda n: n / 10)
    assert curve.seconds((15.0,)) == Estimate(15.0, 1.5, False)


def test_points_may_stand_in_any_order():
    table = make_table(((1.0, 2.0), (3.0, 5.0)), lambda a, b: a * b)
    shuffled = table.model_copy(update={"points": table.points[::-1]})
    assert Curve.from_table(shuffled) == Curve.from_table(table)


def test_collective_is_looked_up_by_name_number_of_workers_and_peer():
    def entry(collective, num_workers, slope, peer=None):
        table = make_table(((100.0, 200.0),), lambda n: slope * n)
        return CollectiveTable(collective=collective, backend="gloo", num_workers=num_workers, table=table, peer=peer)

    profile = MachineProfile(
        schema_version=1, name="m", device_kind="cpu", device_name="d", memory_bytes=1, host_overhead_s=0, operators={},
        collectives=(
            entry("all_reduce", 2, 1.0), entry("all_reduce", 4, 2.0), entry("all_to_all", 4, 3.0),
            entry("all_to_all_pair", 4, 4.0, 0), entry("all_to_all_pair", 4, 5.0, 2),
        ),
    )  # fmt: skip
    assert collective_curve(profile, "all_reduce", 4).seconds((150.0,)) == Estimate(300.0, 0.0, False)
    assert collective_curve(profile, "all_to_all", 4).seconds((400.0,)) == Estimate(1200.0, 0.0, True)
    assert collective_curve(profile, "all_to_all_pair", 4, 2).seconds((150.0,)) == Estimate(750.0, 0.0, False)
    assert collective_curve(profile, "all_to_all", 2) is None
    assert collective_curve(profile, "all_to_all_pair", 4, 1) is None
