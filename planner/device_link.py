"""The link between two devices of a host that nobody measured and no cluster file names."""

from __future__ import annotations

from collections.abc import Iterable

from pydantic import PositiveFloat

from gnnplan.profiles.curves import Curve
from gnnplan.profiles.machine import Link, MachineProfile

_PCIE_3_X16 = Link(bytes_per_s=PositiveFloat(12e9), latency_s=20e-6)
_TIMED_BYTES = 2.0**28
_SLOT_TABLES = ("h2d_pinned", "d2h_pinned")


def default_device_link(profiles: Iterable[MachineProfile]) -> Link:
    """PCIe 3.0 x16, or the slowest slot of these devices where one is slower: rows pass through both slots."""
    slots = [slot for profile in profiles if (slot := _slot_bytes_per_s(profile)) is not None]
    return _PCIE_3_X16.model_copy(update={"bytes_per_s": min([_PCIE_3_X16.bytes_per_s, *slots])})


def _slot_bytes_per_s(profile: MachineProfile) -> float | None:
    """What a device's slot carries to or from page-locked memory; None where the profile does not tell."""
    tables = [profile.operators[name] for name in _SLOT_TABLES if name in profile.operators]
    rates = [
        _TIMED_BYTES / seconds
        for table in tables
        if (seconds := Curve.from_table(table).seconds((_TIMED_BYTES,)).seconds)
    ]
    return min(rates, default=None)
