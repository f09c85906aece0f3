"""Seconds and bytes in words."""

from __future__ import annotations

from math import floor, log10


def seconds(value: float) -> str:
    """Seconds in the unit one reads best, to three digits; from 1,000 s on to the second."""
    rounded = float(f"{value:.3g}")
    units = (("s", 1.0), ("ms", 1e3))
    unit, scale = next(((unit, scale) for unit, scale in units if abs(rounded) * scale >= 1), ("µs", 1e6))
    return f"{value:,.0f} {unit}" if abs(rounded) >= 1000 else f"{rounded * scale:.3g} {unit}"


def signed(value: float) -> str:
    """Seconds with their sign."""
    return f"{'-' if value < 0 else '+'}{seconds(abs(value))}"


def size(num_bytes: float) -> str:
    """Bytes in the unit one reads best."""
    for unit in ("B", "KiB", "MiB"):
        if abs(num_bytes) < 1024:
            return f"{num_bytes:.4g} {unit}"
        num_bytes /= 1024
    return f"{num_bytes:,.0f} GiB" if abs(num_bytes) >= 1000 else f"{num_bytes:.4g} GiB"


def dollars(value: float) -> str:
    """To the cent; less than ten of them to two digits."""
    return f"{value:,.2f}" if value >= 0.1 else f"{value:.{_places(value)}f}"


def _places(value: float) -> int:
    """Decimal places that show two digits of a small number."""
    return 2 if value <= 0 else min(max(1 - floor(log10(value)), 2), 12)
