"""Seconds of a device by its rates: launches, then what takes longer of arithmetic and bytes; measured points stay."""

from dataclasses import replace
from math import prod

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gnnplan.profiles.catalog.devices import Rates, device_file
from gnnplan.profiles.catalog.roofline import AXES, AXIS_VALUES, PUBLISHED, operator_tables, roofline_seconds
from gnnplan.profiles.catalog.traffic import TRAFFIC
from gnnplan.profiles.operators import OPERATORS

LAUNCH_S = 1e-5
RATES = Rates(
    matmul_flops=1e12,
    memory_bytes_per_s=1e9,
    spmm_bytes_per_s=1e8,
    h2d_pinned_bytes_per_s=4e9,
    h2d_pageable_bytes_per_s=2e9,
    d2h_pinned_bytes_per_s=8e9,
    d2h_pageable_bytes_per_s=1e9,
    launch_s=LAUNCH_S,
)


def test_operators_and_axes_are_those_the_profiler_measures():
    assert {
        name: operator.axes for name, operator in OPERATORS.items() if not (operator.peer_only or operator.cpu_only)
    } == AXES


@pytest.mark.parametrize(
    ("operator", "shape", "launches", "busy_s"),
    [
        ("add", (1000.0,), 1, 12_000 / 1e9),
        ("loss", (10.0, 4.0), 12, 10 * (44 * 4 + 160) / 1e9),
        ("gather_rows", (100.0, 16.0), 1, 100 * (8 + 64 + 64) / 1e9),
        ("spmm", (100.0, 4.0, 16.0), 1, 42_000 / 1e8),
        ("matmul_forward", (1000.0, 1000.0, 1000.0), 1, 12e6 / 1e9),
        ("h2d_pinned", (8e9,), 1, 2.0),
        ("h2d_pageable", (8e9,), 1, 4.0),
        ("d2h_pinned", (8e9,), 1, 1.0),
        ("d2h_pageable", (8e9,), 1, 8.0),
    ],
)
def test_an_operator_moves_its_bytes_at_its_own_rate(operator, shape, launches, busy_s):
    """After its launches; products with a sparse matrix and copies have rates of their own."""
    assert roofline_seconds(operator, shape, RATES) == pytest.approx(launches * LAUNCH_S + busy_s)


@pytest.mark.parametrize(("flops", "expected_s"), [(1e9, 2.0), (1e12, 0.012)])
def test_a_product_takes_the_longer_of_arithmetic_and_bytes(flops, expected_s):
    """2 GFLOP, or 12 MB at 1 GB/s."""
    seconds = roofline_seconds("matmul_grad_weight", (1000.0,) * 3, replace(RATES, matmul_flops=flops))
    assert seconds == pytest.approx(LAUNCH_S + expected_s)


@given(
    st.sampled_from(sorted(AXES)),
    st.lists(st.floats(1, 1e5), min_size=3, max_size=3),
    st.integers(0, 2),
    st.floats(1, 100),
)
def test_more_of_anything_takes_no_less(operator, extents, axis, factor):
    """And nothing less than its launches."""
    shape = extents[: len(AXES[operator])]
    larger = [extent * (factor if index == axis % len(shape) else 1) for index, extent in enumerate(shape)]
    seconds = roofline_seconds(operator, tuple(shape), RATES)
    assert seconds > LAUNCH_S * (TRAFFIC[operator].launches if operator in TRAFFIC else 1)
    assert roofline_seconds(operator, tuple(larger), RATES) >= seconds


def test_tables_are_full_and_only_measured_points_are_not_the_rooflines():
    """These have the published median and the interquartile range of a normal distribution with that deviation."""
    table1 = device_file().device["rtx-2060"].table1
    scaled, published = (operator_tables(RATES, each) for each in (None, table1))
    assert list(scaled) == list(published) == list(AXES)
    for name, table in scaled.items():
        assert len(table.points) == prod(len(AXIS_VALUES[axis]) for axis in table.axes)
        assert {point.provenance for point in table.points} == {"scaled"}
        last = table.points[-1]
        assert last.median_s == roofline_seconds(name, last.shape, RATES)
        others = [after for before, after in zip(table.points, published[name].points, strict=True) if before != after]
        if name not in PUBLISHED:
            assert not others
            continue
        (point,), (shape, column) = others, PUBLISHED[name]
        assert (point.shape, point.provenance) == (shape, "published")
        assert point.median_s == getattr(table1, f"{column}_s")
        assert point.spread_s == pytest.approx(1.349 * getattr(table1, f"{column}_std_s"))
