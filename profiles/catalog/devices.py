"""The published devices: what `devices.toml` prints, and the rates that follow from it."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from statistics import median
from typing import Literal

from pydantic import Field, PositiveFloat

from gnnplan.profiles.catalog import traffic
from gnnplan.profiles.contract import Contract, Document
from gnnplan.profiles.machine import Provenance

DEVICES_FILE = Path(__file__).with_name("devices.toml")


class Figure(Contract):
    """A number with where it is from."""

    value: PositiveFloat
    source: str = Field(min_length=1)
    provenance: Provenance


class Table1(Contract):
    """CaPGNN table 1: median and standard deviation in seconds over 50 repeats, per task.

    The matrices are float32 of `traffic.PAPER_EXTENT` squared; docs/catalog.md says why that.
    """

    mm_s: PositiveFloat
    mm_std_s: float = Field(ge=0)
    spmm_s: PositiveFloat
    spmm_std_s: float = Field(ge=0)
    h2d_s: PositiveFloat
    h2d_std_s: float = Field(ge=0)
    d2h_s: PositiveFloat
    d2h_std_s: float = Field(ge=0)
    idt_s: PositiveFloat
    idt_std_s: float = Field(ge=0)


class Device(Contract):
    """One entry of the catalog.

    Args:
        shares_like: architecture whose achieved shares are taken, where it is not the own one.
        fp32_flops: peak FLOP/s without tensor cores; memory_bytes_per_s: peak; pcie_bytes_per_s:
            raw rate of the link in one direction.
        table1: measured seconds, where CaPGNN measured the device.
    """

    display_name: str = Field(min_length=1)
    architecture: Literal["volta", "turing", "ampere", "ada", "hopper"]
    shares_like: Literal["turing", "ampere"] | None = None
    memory_bytes: Figure
    fp32_flops: Figure
    memory_bytes_per_s: Figure
    pcie_bytes_per_s: Figure
    table1: Table1 | None = None


class Common(Contract):
    """Figures that hold for every device of the catalog; see `devices.toml`."""

    host_overhead_s: Figure
    step_overhead_s: Figure
    pcie_share: Figure
    staging_bytes_per_s: Figure


class DeviceFile(Document):
    """`devices.toml`."""

    KIND = "device_catalog"

    common: Common
    device: dict[str, Device]


@dataclass(frozen=True)
class Rates:
    """Achieved rates of one device, and seconds of a kernel launch.

    Args:
        matmul_flops: FLOP/s of a large float32 product.
        memory_bytes_per_s: read plus written bytes of streaming kernels.
        spmm_bytes_per_s: bytes of `traffic.spmm_bytes` at a large width.
    """

    matmul_flops: float
    memory_bytes_per_s: float
    spmm_bytes_per_s: float
    h2d_pinned_bytes_per_s: float
    h2d_pageable_bytes_per_s: float
    d2h_pinned_bytes_per_s: float
    d2h_pageable_bytes_per_s: float
    launch_s: float


@lru_cache(maxsize=1)
def device_file() -> DeviceFile:
    """The decoded catalog."""
    return DeviceFile.load(DEVICES_FILE)


def rates(name: str) -> Rates:
    """Achieved rates of a catalog device."""
    return rates_of(device_file().device[name])


def rates_of(device: Device) -> Rates:
    """Achieved rates: from the device's own table 1 seconds, else scaled by achieved shares."""
    common = device_file().common
    launch_s = common.host_overhead_s.value
    pinned = device.pcie_bytes_per_s.value * common.pcie_share.value
    pageable = 1 / (1 / pinned + 1 / common.staging_bytes_per_s.value)
    if device.table1 is None:
        matmul, memory, spmm = shares(device.shares_like or device.architecture)
        peak = device.memory_bytes_per_s.value
        achieved = (device.fp32_flops.value * matmul, peak * memory, peak * spmm)
        h2d = d2h = pageable
    else:
        achieved = _achieved(device.table1, launch_s)
        h2d = traffic.PAPER_BYTES / (device.table1.h2d_s - launch_s)
        d2h = traffic.PAPER_BYTES / (device.table1.d2h_s - launch_s)
    return Rates(*achieved, pinned, h2d, pinned, d2h, launch_s)


def shares(architecture: str) -> tuple[float, float, float]:
    """Achieved over peak of (matmul FLOP/s, memory bytes/s, SpMM bytes/s).

    The median over the devices of that architecture in CaPGNN table 1.
    """
    launch_s = device_file().common.host_overhead_s.value
    found = []
    for device in device_file().device.values():
        if device.architecture == architecture and device.table1 is not None:
            matmul, memory, spmm = _achieved(device.table1, launch_s)
            peak = device.memory_bytes_per_s.value
            found.append((matmul / device.fp32_flops.value, memory / peak, spmm / peak))
    assert found, f"{architecture}: no measured device; set shares_like"
    return median(f[0] for f in found), median(f[1] for f in found), median(f[2] for f in found)


def _achieved(table1: Table1, launch_s: float) -> tuple[float, float, float]:
    extent = traffic.PAPER_EXTENT
    return (
        traffic.matmul_flops(extent, extent, extent) / (table1.mm_s - launch_s),
        traffic.idt_bytes(traffic.PAPER_BYTES) / (table1.idt_s - launch_s),
        traffic.spmm_bytes(extent, traffic.PAPER_DEGREE, extent) / (table1.spmm_s - launch_s),
    )
