"""The exact problem: never above a simulated plan, never below the bound, and right where one can count by hand."""

import pytest

from benchmarks.oracles.dispatch import solve
from gnnplan.planner.minibatch.bound import epoch_bound
from gnnplan.planner.minibatch.dispatch import dispatch
from tests.planner.minibatch.test_simulate import times


@pytest.mark.parametrize("stage", [times(40, 30, 20, 10), times(8.4, 30.2, 6.1, 4.0), times(100, 11, 10, 5)])
def test_an_optimum_lies_between_the_bound_and_a_plan(stage):
    """And four batches are few enough for it to be proven."""
    plan = dispatch(stage, 4, cpu_slots=2, gpu_slots=2)
    exact = solve(stage, 2, 2, 4, at_most_s=plan.epoch_s, limit_s=60)
    assert exact.is_optimal
    assert epoch_bound(stage, 4).seconds * (1 - 1e-3) <= exact.seconds <= plan.epoch_s * (1 + 1e-3)


def test_two_batches_by_hand():
    """GPU: batch 10, train 5 while the CPU's (ready at 8) is transferred from 10 to 13, train 5: 20 ms."""
    exact = solve(times(8, 10, 3, 5), 1, 1, 2, at_most_s=1.0, limit_s=60)
    assert exact.is_optimal
    assert exact.seconds == pytest.approx(20e-3, rel=1e-3)
    assert exact.num_gpu_batches == 1


@pytest.mark.parametrize(("gpu_slots", "expected_ms"), [(1, 36), (2, 32)])
def test_device_slots_bind(gpu_slots, expected_ms):
    """Two by the GPU, one by the CPU, ready at 18. With two slots it is copied from 20 to 28 while the others train.

    With one the GPU makes its second batch after training the first, from 14 to 24, and the copy waits for that: it
    lasts from 24 to 32, and training to 36.
    """
    exact = solve(times(18, 10, 8, 4), 1, gpu_slots, 3, at_most_s=1.0, limit_s=60)
    assert exact.is_optimal
    assert exact.seconds == pytest.approx(expected_ms / 1e3, rel=1e-3)
    assert exact.num_gpu_batches == 2


@pytest.mark.parametrize(("cpu_slots", "expected_ms"), [(1, 37), (2, 35)])
def test_host_slots_bind(cpu_slots, expected_ms):
    """PCIe is the GPU's until 20: with two slots the CPU has two batches ready by then, trained until 35.

    With one it begins the second at 20, or makes all three: either way the last is ready at 30 and trained at 37.
    """
    exact = solve(times(10, 20, 2, 5), cpu_slots, 3, 3, at_most_s=1.0, limit_s=60)
    assert exact.is_optimal
    assert exact.seconds == pytest.approx(expected_ms / 1e3, rel=1e-3)


def test_no_bound_is_above_a_plan():
    """With stages of odd lengths, and no time to solve or some: rounding neither forbids the plan nor lifts a bound."""
    stage = times(14.8254, 12.3019, 0.5707, 9.6887)
    plan = dispatch(stage, 8, cpu_slots=1, gpu_slots=6)
    assert plan.gap > 0.05
    for limit_s in (1e-3, 5):
        exact = solve(stage, 1, 6, 8, at_most_s=plan.epoch_s, limit_s=limit_s)
        assert epoch_bound(stage, 8).seconds * (1 - 1e-3) <= exact.bound_s <= exact.seconds <= plan.epoch_s
