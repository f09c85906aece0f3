"""A quota is recognised by stalls at even times, and nothing else is taken for one."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gnnplan.profiles import quota
from gnnplan.profiles.cgroups import CoreLimit
from gnnplan.profiles.machine import CpuQuota
from gnnplan.profiles.quota import find_cpu_quota, quota_of


def stalls_of(share, period_s, *, spun_s=1.2, jitter=0.0, seed=0):
    """What spinning under a quota sees, every edge off by a share of the period."""
    rng = np.random.default_rng(seed)
    begins = np.arange(0, spun_s - period_s, period_s)
    return [(begin + share * period_s, begin + period_s * (1 + jitter * rng.uniform(-1, 1))) for begin in begins]


@settings(max_examples=60, deadline=None)
@given(st.floats(0.05, 0.9), st.floats(0.01, 0.1), st.integers(0, 99))
def test_share_and_period_are_recovered(share, period_s, seed):
    """Whatever the quota, with edges a few per cent off."""
    found = quota_of(stalls_of(share, period_s, jitter=0.03, seed=seed))
    assert found is not None
    assert found.share == pytest.approx(share, abs=0.05)
    assert found.period_s == pytest.approx(period_s, rel=0.05)


def test_a_busy_machine_is_no_quota():
    """Other processes take the core at odd times for odd lengths."""
    rng = np.random.default_rng(0)
    begins = np.sort(rng.uniform(0, 1.2, 40))
    assert quota_of([(begin, begin + rng.uniform(0.001, 0.01)) for begin in begins]) is None


def test_few_stalls_are_no_quota():
    """Neither none nor a handful."""
    assert quota_of([]) is None
    assert quota_of(stalls_of(0.5, 0.01)[:4]) is None


def test_spinning_here_ends(monkeypatch):
    """On this machine it finds one or none."""
    monkeypatch.setattr(quota, "core_limit", lambda: None)
    found = find_cpu_quota(1, 1)
    assert found is None or 0 < found.share < 1


@pytest.mark.parametrize(
    ("num_cores", "num_workers", "num_threads", "share"), [(0.8, 1, 1, 0.8), (3.0, 2, 2, 0.75), (4.0, 2, 2, None)]
)
def test_a_control_group_is_shared_by_all_threads(monkeypatch, num_cores, num_workers, num_threads, share):
    """What it gives is divided among the workers and their threads; all they can use is no limit."""
    monkeypatch.setattr(quota, "core_limit", lambda: CoreLimit(num_cores, 0.1))
    found = find_cpu_quota(num_workers, num_threads)
    assert found == (share and CpuQuota(share=share, period_s=0.1))
