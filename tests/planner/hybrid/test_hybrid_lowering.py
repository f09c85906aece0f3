"""An epoch of workers that replicate: the plain exchange's bytes where nothing is cached, none where everything is."""

import numpy as np
import pytest

from gnnplan.planner.simulator.engine import compile_schedule, play
from gnnplan.profiles.machine import Link
from tests.planner.hybrid.shares import CASES, Shares


@pytest.mark.parametrize(("kind", "layers"), CASES)
def test_with_nothing_cached_it_sends_what_the_plain_exchange_sends(kind, layers):
    """To the byte, with the same tasks but for what only brings rows together."""
    shares = Shares(kind, layers)
    plain, ours = shares.lowering(), shares.lowering(shares.masks(0.0))
    np.testing.assert_array_equal(plain.sent_bytes, ours.sent_bytes)
    exchanges = [[key for key in each.schedule.keys_of(0) if "/exchange/" in key] for each in (plain, ours)]
    assert exchanges[0] == exchanges[1]


@pytest.mark.parametrize(("kind", "layers"), CASES)
def test_with_everything_cached_nobody_waits_for_an_exchange(kind, layers):
    """No byte is sent but the reduction's, and exchanges take no time and have no group."""
    shares = Shares(kind, layers)
    ours = shares.lowering(shares.masks(1.0))
    assert not ours.sent_bytes.any()
    tasks = [task for task in ours.schedule.tasks if "/exchange/" in task.key]
    assert tasks
    assert all(task.seconds == 0 and task.group == -1 for task in tasks)


@pytest.mark.parametrize(("kind", "layers"), CASES)
def test_tasks_are_the_same_under_every_split(kind, layers):
    """So that epochs before and after an adjustment can be laid over each other."""
    shares = Shares(kind, layers)
    keys = [shares.lowering(shares.masks(share)).schedule.keys_of(rank) for share in (0, 0.3, 1) for rank in range(3)]
    assert all(each == keys[0] for each in keys)
    assert len(set(keys[0])) == len(keys[0])


@pytest.mark.parametrize(("kind", "layers"), CASES)
def test_a_slow_network_favours_caching_and_a_fast_one_does_not(kind, layers):
    """The simulated epoch: replicas cost work, rows cost the link."""
    epochs = {}
    for name, bytes_per_s in (("slow", 1e6), ("fast", 1e14)):
        shares = Shares(kind, layers, link=Link(bytes_per_s=bytes_per_s), hidden=64)
        for share in (0.0, 1.0):
            schedule = shares.lowering(shares.masks(share)).schedule
            epochs[name, share] = play(compile_schedule(schedule)).makespan_s
    assert epochs["slow", 1.0] < epochs["slow", 0.0]
    assert epochs["fast", 1.0] - epochs["fast", 0.0] > epochs["slow", 1.0] - epochs["slow", 0.0]
