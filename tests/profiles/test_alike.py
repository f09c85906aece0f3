"""Hosts of one kind share what they timed."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gnnplan.profiles.alike import sharing_timings
from gnnplan.profiles.machine import CpuQuota, Link, MachineProfile, MeasuredHost, OperatorTable, Point, SharedMachine

NAMES = ("a", "b", "c", "d")
MEMBERS = tuple(MeasuredHost(name=name, num_workers=1, link=Link(bytes_per_s=1e8), cpu_cores=0.4) for name in NAMES)
SIZES = (100.0, 1000.0, 10_000.0)
OPERATORS = {f"operator_{number}": 10.0**-number for number in range(1, 7)}  # seconds of a unit


def profile_of(name, factor=1.0, noise=0.0, *, slow=None, **changes):
    """Of a host that takes so many times as long, and `slow` of its operators three times that."""
    rng = np.random.default_rng(NAMES.index(name))
    tables = {}
    for operator, unit_s in OPERATORS.items():
        own = factor * (3.0 if operator == slow else 1.0)
        seconds = [own * unit_s * size * float(np.exp(rng.normal(0, noise))) for size in SIZES for _ in range(10)]
        shapes = [(size, float(width)) for size in SIZES for width in range(1, 11)]
        points = [Point(shape=s, median_s=t, spread_s=t / 10) for s, t in zip(shapes, seconds, strict=True)]
        tables[operator] = OperatorTable(axes=("num_rows", "width"), points=tuple(points))
    fields = {"device_kind": "cpu", "device_name": "x", "memory_bytes": 2**30, "host_overhead_s": 1e-4 * factor}
    cores = {"cpu_quota": CpuQuota(share=0.4, period_s=0.01), "members": MEMBERS}
    return MachineProfile(name=name, host=name, operators=tables, **{**fields, **cores, **changes})


def errors(profile, factor=1.0):
    """Logarithms of what every point is off by."""
    return np.log(
        [
            point.median_s / (factor * OPERATORS[name] * point.shape[0])
            for name, table in profile.operators.items()
            for point in table.points
        ]
    )


def test_noise_is_taken_out():
    """Four hosts that do not differ have one table, which is off by half as much."""
    before = [profile_of(name, noise=0.1) for name in NAMES]
    after = sharing_timings(before)
    assert all(each.operators == after[0].operators for each in after)
    assert np.std(errors(after[0])) < 0.65 * np.std(errors(before[0]))
    assert {each.host: each.alike for each in after}["b"] == ("a", "c", "d")
    assert {each.host_overhead_s for each in after} == {1e-4}


def test_what_hosts_say_of_being_alone_is_shared():
    """The median, of hosts of one machine each."""
    shares = {"a": ("m", 0.9), "b": ("m", 0.8), "c": ("m", 0.85), "d": ("n", 0.5)}
    machines = {n: SharedMachine(name=m, num_hosts=4, alone_share=share) for n, (m, share) in shares.items()}
    after = sharing_timings([profile_of(name, noise=0.1, shared_machine=machines[name]) for name in NAMES])
    assert [each.shared_machine.alone_share for each in after] == [0.85, 0.85, 0.85, 0.5]


@pytest.mark.parametrize("factor", [0.7, 1.2, 3.0])
def test_a_slower_host_stays_slower(factor):
    """And its points are off by less than alone."""
    before = [profile_of(name, factor if name == "c" else 1.0, 0.1) for name in NAMES]
    after = sharing_timings(before)
    assert np.median(errors(after[2], factor)) == pytest.approx(0, abs=0.03)
    assert np.std(errors(after[2], factor)) < 0.7 * np.std(errors(before[2], factor))
    assert np.median(errors(after[0])) == pytest.approx(0, abs=0.03)


def test_an_operator_that_is_slow_on_one_host_stays_so():
    """As where half of its memory is missing."""
    after = sharing_timings([profile_of(name, noise=0.1, slow="operator_3" if name == "d" else None) for name in NAMES])
    ratio = {n: after[3].operators[n].points[7].median_s / t.points[7].median_s for n, t in after[0].operators.items()}
    assert ratio.pop("operator_3") == pytest.approx(3.0, rel=0.1)
    assert set(ratio.values()) == {1.0}


@pytest.mark.parametrize(
    "change",
    [
        {"num_threads": 2},
        {"device_name": "y"},
        {"cpu_quota": None},
        {"software": {"torch": "1"}},
        {"members": (MEMBERS[0], MEMBERS[1].model_copy(update={"cpu_cores": 0.8}), *MEMBERS[2:])},
    ],
)
def test_others_are_left_as_they_are(change):
    """Of another device, with other limits or other software."""
    pair = [profile_of("a", noise=0.1), profile_of("b", noise=0.1, **change)]
    assert sharing_timings(pair) == pair


@pytest.mark.long
@given(st.lists(st.sampled_from([0.5, 1.0, 2.0]), min_size=1, max_size=4), st.floats(0, 0.3))
def test_what_was_measured_bounds_it(factors, noise):
    """No point leaves what the hosts have measured, but for a host's own factor; nothing but timings changes."""
    before = [profile_of(name, factor, noise) for name, factor in zip(NAMES, factors, strict=False)]
    after = sharing_timings(before)
    for old, new in zip(before, after, strict=True):
        assert new.model_copy(update={n: getattr(old, n) for n in ("operators", "alike", "host_overhead_s")}) == old
        assert (errors(new) <= np.max([errors(each) for each in before], axis=0) + 1).all()


def test_a_host_alone_is_as_it_was():
    """There is nobody to share with."""
    alone = [profile_of("a", noise=0.2)]
    assert sharing_timings(alone) == alone
