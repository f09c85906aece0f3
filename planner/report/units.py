"""Seconds and bytes in words."""

from __future__ import annotations


def seconds(value: float) -> str:
    """Seconds in the unit one reads best."""
    for unit, scale in (("s", 1.0), ("ms", 1e3), ("µs", 1e6)):
        if value * scale >= 1 or unit == "µs":
            return f"{value * scale:.3g} {unit}" if value * scale < 1000 else f"{value * scale:,.0f} {unit}"
    return f"{value} s"


def size(num_bytes: float) -> str:
    """Bytes in the unit one reads best."""
    for unit in ("B", "KiB", "MiB", "GiB"):
        if abs(num_bytes) < 1024 or unit == "GiB":
            return f"{num_bytes:.4g} {unit}"
        num_bytes /= 1024
    return f"{num_bytes} B"
