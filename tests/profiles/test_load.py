"""Load that is not ours: what a machine's processors did, less what our workers did."""

import os
import subprocess
import sys
import time

import pytest

from gnnplan.profiles import load
from gnnplan.profiles.load import LoadWatch, MachineLoad, others_share

TICK_S = 1 / os.sysconf("SC_CLK_TCK")


def loaded(machine="a", *, busy_s, own_s, elapsed_s=10.0, num_cores=2):
    return MachineLoad(machine=machine, elapsed_s=elapsed_s, busy_s=busy_s, own_s=own_s, num_cores=num_cores)


def test_others_are_what_none_of_our_workers_used():
    """Of two cores' twenty seconds our two workers used twelve and others five, less the ticks that are unsure."""
    share = others_share([loaded(busy_s=17.0, own_s=6.0), loaded(busy_s=17.0, own_s=6.0)])
    assert share == pytest.approx((5.0 - 2 * TICK_S) / 20.0)


def test_a_quiet_machine_has_none():
    """Neither where ticks say less than we know, nor where the machine does not say at all."""
    assert others_share([loaded(busy_s=5.9, own_s=6.0)]) == 0.0
    assert others_share([loaded(busy_s=0.0, own_s=6.0)]) == 0.0
    assert others_share([]) == 0.0


def test_machines_are_looked_at_apart():
    """The one that is disturbed most counts: workers elsewhere take nothing from it."""
    share = others_share([loaded("a", busy_s=6.0, own_s=6.0), loaded("b", busy_s=16.0, own_s=6.0)])
    assert share == pytest.approx((10.0 - 2 * TICK_S) / 20.0)


def test_busy_time_is_read_from_the_kernel(tmp_path):
    """User, nice, system, and both kinds of interrupts, in ticks; neither idle time nor waiting for disks."""
    stat = tmp_path / "stat"
    stat.write_text("cpu  100 20 3 5000 7000 400 50 9 9 9\ncpu0 1 2 3\n")
    assert load._busy_s(stat) == pytest.approx(573 * TICK_S)
    assert load._busy_s(tmp_path / "none") == 0.0


def test_our_own_work_is_not_others():
    """What this process burns stands on both sides of the watch."""
    watch = LoadWatch.begin()
    while (now := watch.end()).own_s < 0.05:
        pass
    assert now.own_s >= 0.05
    assert now.machine == LoadWatch.begin().end().machine


def test_a_busy_program_beside_us_is_seen():
    """Another process burns processor time, and it is not ours."""
    watch, deadline_s = LoadWatch.begin(), time.monotonic() + 60.0
    with subprocess.Popen([sys.executable, "-c", "while True: pass"]) as busy:
        try:
            while others_share([watch.end()]) * watch.end().elapsed_s <= 0.2:
                assert time.monotonic() < deadline_s
                time.sleep(0.05)
        finally:
            busy.kill()
