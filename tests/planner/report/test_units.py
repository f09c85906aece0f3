"""Seconds and bytes are shown in the unit one reads best, and off by rounding alone."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gnnplan.planner.report.units import dollars, seconds, size


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0.0, "0 µs"),
        (1.5e-6, "1.5 µs"),
        (0.0009996, "1 ms"),
        (0.0025, "2.5 ms"),
        (-0.5, "-500 ms"),
        (0.9996, "1 s"),
        (12.34, "12.3 s"),
        (999.7, "1,000 s"),
        (4321.0, "4,321 s"),
    ],
)
def test_seconds_take_the_unit_one_reads_best(value, text):
    """Three digits, thousands apart."""
    assert seconds(value) == text


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0, "0 B"),
        (1023, "1023 B"),
        (1024, "1 KiB"),
        (3 * 2**20, "3 MiB"),
        (24e9, "22.35 GiB"),
        (2**44, "16,384 GiB"),
        (-2048, "-2 KiB"),
    ],
)
def test_bytes_take_the_unit_one_reads_best(value, text):
    """Powers of 1024, and gibibytes beyond."""
    assert size(value) == text


@given(st.floats(1e-9, 1e6))
def test_shown_seconds_are_near_the_value(value):
    """What is printed differs from the value by rounding alone."""
    number, unit = seconds(value).replace(",", "").split()
    assert float(number) * {"s": 1, "ms": 1e-3, "µs": 1e-6}[unit] == pytest.approx(value, rel=6e-3)


@given(st.integers(0, 2**45))
def test_shown_bytes_are_near_the_value(value):
    """The same for bytes."""
    number, unit = size(value).replace(",", "").split()
    scale = {"B": 1, "KiB": 2**10, "MiB": 2**20, "GiB": 2**30}[unit]
    assert float(number) * scale == pytest.approx(value, rel=1e-3)


@pytest.mark.parametrize(
    ("value", "words"),
    [(1234.5, "1,234.50"), (0.1, "0.10"), (0.012, "0.012"), (0.0000217, "0.000022"), (0.0, "0.00"), (0.05, "0.050")],
)
def test_dollars_are_never_nothing(value, words):
    """A job of milliseconds costs something too."""
    assert dollars(value) == words
