"""Resources whose rates change: fair ones change nothing, slow ones stretch work, and groups wait for the slowest."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from random_schedules import random_schedule, under_quotas

from gnnplan.planner.schedule import Quota, Schedule, Task
from gnnplan.planner.simulator.engine import DeadlockError, at_rates, compile_schedule, play
from gnnplan.planner.simulator.tables import NEVER_NS
from tests.planner.simulator.test_engine import schedule_of
from tests.planner.simulator.test_on_end import times_of

PERIOD_NS, NS = 1000, 1e-9


def changing(compiled, change_ns, share):
    """Every resource changes alike."""
    size = compiled.tables.queue_start.size - 1
    return at_rates(compiled, np.tile(np.array(change_ns, np.int64), (size, 1)), np.tile(np.array(share), (size, 1)))


def changes(rng, most=4, until_ns=20):
    """Ascending moments, and a share before each and after the last."""
    moments = np.sort(rng.integers(0, until_ns, int(rng.integers(0, most + 1))))
    return moments, rng.choice([0.1, 0.25, 0.5, 1.0], moments.size + 1)


@settings(max_examples=200, deadline=None)
@given(st.integers(0, 2**32 - 1), st.booleans())
def test_rates_that_stay_fair_change_nothing(seed, has_quotas):
    """However often they are said to change; with quotas, charges and deadlocks."""
    rng = np.random.default_rng(seed)
    schedule = random_schedule(rng)
    compiled = compile_schedule(under_quotas(schedule, rng) if has_quotas else schedule)
    moments, _ = changes(rng, most=6, until_ns=4000 if has_quotas else 20)
    assert times_of(changing(compiled, moments, np.ones(moments.size + 1))) == times_of(compiled)


@settings(max_examples=100, deadline=None)
@given(st.integers(0, 2**32 - 1), st.sampled_from([0.5, 0.25, 0.125]))
def test_all_at_a_share_take_as_often_as_long(seed, share):
    """Work, rendezvous and charges alike, where no quota counts periods."""
    compiled = compile_schedule(random_schedule(np.random.default_rng(seed)))
    try:
        expected = play(compiled).end_ns / share
    except DeadlockError:
        return
    assert play(changing(compiled, [], [share])).end_ns.tolist() == expected.tolist()


@settings(max_examples=100, deadline=None)
@given(st.lists(st.integers(0, 30), min_size=1, max_size=5), st.integers(0, 2**32 - 1))
def test_work_is_the_sum_of_its_rates(works, seed):
    """Tasks one after another end when the share, summed up over every nanosecond, has reached their work."""
    moments, share = changes(np.random.default_rng(seed), until_ns=60)
    compiled = compile_schedule(schedule_of(*[(work, 0) for work in works]))
    end_ns = play(changing(compiled, moments, share)).end_ns
    at = np.arange(end_ns[-1] + 1)
    done = np.concatenate([[0.0], np.cumsum(share[np.searchsorted(moments, at, side="right")])])
    begin_ns = np.concatenate([[0], end_ns[:-1]])
    for begin, end, work in zip(begin_ns, end_ns, works, strict=True):
        assert done[end] - done[begin] == pytest.approx(work, abs=0.51)


def by_stepping(works, quota_ns, phase_ns, moments, share):
    """End times of tasks on end, every nanosecond looked at; a period has its begin's share of the quota."""
    ends, now, period, used = [], phase_ns, 0, 0
    for work in works:
        while work:
            if now // PERIOD_NS != period:
                period, used = now // PERIOD_NS, 0
            its = share[np.searchsorted(moments, period * PERIOD_NS - phase_ns, side="right")]
            if used < max(1, round(quota_ns * its)):
                work, used = work - 1, used + 1
            now += 1
        ends.append(now - phase_ns)
    return ends


@pytest.mark.long
@settings(max_examples=60, deadline=None)
@given(
    st.lists(st.integers(0, 2500), min_size=1, max_size=3),
    st.sampled_from([0.1, 0.5, 1.0]),
    st.integers(0, PERIOD_NS - 1),
    st.integers(0, 2**32 - 1),
)
def test_a_quota_at_changing_rates_equals_stepping(works, quota, phase_ns, seed):
    """The jump over whole periods ends where a nanosecond at a time ends."""
    moments, share = changes(np.random.default_rng(seed), until_ns=9 * PERIOD_NS)
    schedule = Schedule(1, quotas={0: Quota(quota, PERIOD_NS * NS, phase_ns * NS)})
    for index, work in enumerate(works):
        schedule.add(Task(f"t{index}", 0, "compute", work * NS / quota, 0, (index - 1,) if index else ()))
    compiled = compile_schedule(schedule)
    quota_ns = int(compiled.tables.quota_ns[0])
    found = play(changing(compiled, moments, share)).end_ns.tolist()
    expected = by_stepping(compiled.duration_ns, quota_ns, int(compiled.tables.phase_ns[0]), moments, share)
    assert found == expected


def meeting(**charge):
    """Two workers exchange rows for 100 ns."""
    tasks = [Task("meet", w, "communicate", 100 * NS, 2 + w, group=0, charged=w, **charge) for w in range(2)]
    return compile_schedule(Schedule(2, tasks))


def slowed(compiled, resource, share):
    """One resource at a share of its rate for ever."""
    shares = np.ones((4, 1))
    shares[resource] = share
    return play(at_rates(compiled, np.empty((4, 0), np.int64), shares)).end_ns.tolist()


def test_a_group_takes_as_long_as_its_slowest_member():
    """At half the rate of one link all take twice as long; a fast link helps nobody."""
    assert slowed(meeting(), 2, 0.5) == slowed(meeting(), 3, 0.5) == [200, 200]


def test_what_is_charged_to_a_slow_processor_holds_up_the_group():
    """60 of the 100 ns are the processor's: at half its rate it needs 120 for them, and at 0.9 no more than there are.

    A charge beyond the group's own time counts as all of it: what no quota limits was in it already.
    """
    assert slowed(meeting(processor_s=60 * NS), 0, 0.5) == [120, 120]
    assert slowed(meeting(processor_s=60 * NS), 0, 0.9) == [100, 100]
    assert slowed(meeting(processor_s=1.0), 1, 0.5) == [200, 200]


def test_shares_that_cannot_be_are_refused():
    """Nothing ends at a rate of 0, and a row is missing where another resource is."""
    compiled = meeting()
    with pytest.raises(AssertionError, match="shares must lie"):
        slowed(compiled, 0, 0.0)
    with pytest.raises(AssertionError):
        at_rates(compiled, np.full((3, 1), NEVER_NS), np.ones((3, 2)))
