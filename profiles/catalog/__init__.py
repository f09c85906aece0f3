"""Machines as data: published devices, and profiles measured elsewhere in `measured/<name>.json`."""

from __future__ import annotations

from difflib import get_close_matches
from functools import lru_cache
from pathlib import Path

from gnnplan.profiles.catalog.devices import Device, device_file, rates_of
from gnnplan.profiles.catalog.roofline import operator_tables
from gnnplan.profiles.errors import UserError
from gnnplan.profiles.machine import MachineProfile

MEASURED_FOLDER = Path(__file__).with_name("measured")


def catalog_names() -> list[str]:
    """Names `catalog_profile` knows, sorted."""
    return sorted(set(device_file().device) | {path.stem for path in MEASURED_FOLDER.glob("*.json")})


@lru_cache(maxsize=32)
def catalog_profile(name: str) -> MachineProfile:
    """The profile of a catalog device; a measured one wins over a published one.

    Raises:
        UserError: no device of that name; close names are listed.
    """
    names = catalog_names()
    if name not in names:
        close = get_close_matches(name.lower().replace(" ", "-").replace("_", "-"), names, n=3, cutoff=0.5)
        hint = f"did you mean {' or '.join(close)}?" if close else f"the catalog has {', '.join(names)}"
        raise UserError(f"catalog device {name!r} is unknown; {hint}")
    measured = MEASURED_FOLDER / f"{name}.json"
    if measured.exists():
        return MachineProfile.load(measured)
    return published_profile(name, device_file().device[name])


def published_profile(name: str, device: Device) -> MachineProfile:
    """The profile of a device by its published figures alone."""
    common = device_file().common
    if device.table1 is not None:
        basis = "rates from CaPGNN table 1"
    else:
        basis = f"rates scaled from the {device.shares_like or device.architecture} devices of CaPGNN table 1"
    return MachineProfile(
        schema_version=1,
        name=name,
        device_kind="cuda",
        device_name=device.display_name,
        memory_bytes=int(device.memory_bytes.value),
        host_overhead_s=common.host_overhead_s.value,
        step_overhead_s=common.step_overhead_s.value,
        operators=operator_tables(rates_of(device), device.table1),
        note=f"catalog: {basis}; operators by a roofline, docs/catalog.md",
    )
