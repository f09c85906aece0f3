"""The exact problem: never above a simulated plan, never below the bound, and right where one can count by hand."""

import pytest

from planner.minibatch.bound import epoch_bound
from planner.minibatch.dispatch import dispatch
from planner.minibatch.exact import solve
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


def test_slots_bind():
    """With one slot of device memory a transfer cannot hide behind the training of a batch made before."""
    stage = times(1, 1000, 10, 10)
    narrow, roomy = (solve(stage, 4, slots, 4, at_most_s=1.0, limit_s=60).seconds for slots in (1, 3))
    assert roomy <= narrow
