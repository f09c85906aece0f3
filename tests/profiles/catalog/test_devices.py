"""Rates of published devices: by their own table 1 where CaPGNN measured them, else by the shares of their kind."""

from statistics import median

import pytest

from gnnplan.profiles.catalog import traffic
from gnnplan.profiles.catalog.devices import device_file, rates, shares

DEVICES = device_file().device
MEASURED = sorted(name for name, device in DEVICES.items() if device.table1 is not None)
SCALED = sorted(set(DEVICES) - set(MEASURED))
PEAKS = {
    "matmul_flops": "fp32_flops",
    "memory_bytes_per_s": "memory_bytes_per_s",
    "spmm_bytes_per_s": "memory_bytes_per_s",
}


def peak(name, rate):
    return getattr(DEVICES[name], PEAKS[rate]).value


@pytest.mark.parametrize("name", sorted(DEVICES))
def test_no_achieved_rate_beats_its_peak(name):
    device, achieved = DEVICES[name], rates(name)
    assert achieved.matmul_flops < device.fp32_flops.value
    assert achieved.spmm_bytes_per_s < achieved.memory_bytes_per_s < device.memory_bytes_per_s.value
    assert achieved.h2d_pageable_bytes_per_s < achieved.h2d_pinned_bytes_per_s < device.pcie_bytes_per_s.value


@pytest.mark.parametrize("name", MEASURED)
def test_table_1_cannot_hold_for_matrices_of_16384(name):
    """Why `PAPER_EXTENT` is 11585: with 16384 products, copies and transfers all beat the hardware."""
    device = DEVICES[name]
    assert 2 * 16384**3 / device.table1.mm_s > 1.5 * device.fp32_flops.value
    assert 8 * 16384**2 / device.table1.idt_s > 1.3 * device.memory_bytes_per_s.value
    assert 4 * 16384**2 / device.table1.h2d_s > device.pcie_bytes_per_s.value
    assert 4 * traffic.PAPER_EXTENT**2 / device.table1.h2d_s < device.pcie_bytes_per_s.value


@pytest.mark.parametrize("name", MEASURED)
def test_a_measured_device_takes_the_seconds_of_its_table(name):
    """With the launch of a kernel beside them, whatever else the catalog says of it."""
    extent, found = traffic.PAPER_EXTENT, rates(name)
    busy_s = {
        "mm_s": 2 * extent**3 / found.matmul_flops,
        "spmm_s": traffic.spmm_bytes(extent, traffic.PAPER_DEGREE, extent) / found.spmm_bytes_per_s,
        "idt_s": 8 * extent**2 / found.memory_bytes_per_s,
        "h2d_s": 4 * extent**2 / found.h2d_pageable_bytes_per_s,
        "d2h_s": 4 * extent**2 / found.d2h_pageable_bytes_per_s,
    }
    for column, seconds in busy_s.items():
        assert found.launch_s + seconds == pytest.approx(getattr(DEVICES[name].table1, column))


@pytest.mark.parametrize("name", SCALED)
def test_another_device_has_the_median_shares_of_its_kind(name):
    """Of its own architecture, or of the one that it is said to be like."""
    kind, found = DEVICES[name].shares_like or DEVICES[name].architecture, rates(name)
    alike = [each for each in MEASURED if DEVICES[each].architecture == kind]
    for rate in PEAKS:
        share = median(getattr(rates(each), rate) / peak(each, rate) for each in alike)
        assert getattr(found, rate) == pytest.approx(share * peak(name, rate))


@pytest.mark.parametrize("name", SCALED)
def test_a_pageable_copy_is_staged_and_then_copied(name):
    """One after the other, in both directions alike."""
    found, staging = rates(name), device_file().common.staging_bytes_per_s.value
    assert 1 / found.h2d_pageable_bytes_per_s == pytest.approx(1 / found.h2d_pinned_bytes_per_s + 1 / staging)
    assert found.d2h_pageable_bytes_per_s == found.h2d_pageable_bytes_per_s
    assert found.d2h_pinned_bytes_per_s == found.h2d_pinned_bytes_per_s


def test_a_kind_that_nobody_measured_has_no_shares():
    """Whoever adds such a device has to say what it is like."""
    with pytest.raises(AssertionError, match="hopper: no measured device; set shares_like"):
        shares("hopper")
