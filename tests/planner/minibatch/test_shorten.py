"""Long epochs are planned on short ones: within a fixed number of simulated events, and as well as if they were not."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gnnplan.planner.minibatch import shorten as module
from gnnplan.planner.minibatch.dispatch import dispatch
from gnnplan.planner.minibatch.policy import Buffers, DualBufferPolicy
from gnnplan.planner.minibatch.shorten import ENOUGH, ShortEpoch, shortened
from gnnplan.planner.minibatch.simulate import simulate
from tests.planner.minibatch.test_simulate import TIMES, times

STAGES = [times(40, 30, 20, 10), times(8.4, 30.2, 6.1, 4.0), times(100, 11, 10, 5), times(4, 2.28, 0.5, 1)]


@settings(max_examples=200, deadline=None)
@given(TIMES, st.integers(1, 100_000), st.integers(1, 64))
def test_what_is_left_is_an_epoch_of_some_hundreds_of_batches(stage, num_batches, num_cpu_threads):
    """Never more than two of the largest rounds allow, never fewer than are enough; short ones are left whole."""
    short = shortened(stage, num_batches, num_cpu_threads)
    assert min(num_batches, ENOUGH) <= short.num_batches <= min(num_batches, 2000)
    assert 0 <= short.num_gpu_cut <= short.num_cut
    if num_batches <= ENOUGH:
        assert short == ShortEpoch(num_batches)
    for split in (0, 1, short.num_batches // 2, short.num_batches - 1, short.num_batches):
        whole = short.split_of_all(split)
        assert 0 <= whole <= num_batches
        assert short.split_of_these(whole) == split


@pytest.mark.parametrize("num_cpu_threads", [2, 15])
def test_whole_rounds_are_left_out(num_cpu_threads):
    """The CPU's batches that fill no round stay, and those that the GPU makes meanwhile go with the others."""
    short = shortened(times(4, 2.28, 0.5, 1), 5000, num_cpu_threads)
    num_cpu_cut = short.num_cut - short.num_gpu_cut
    assert num_cpu_cut > 0
    assert num_cpu_cut % num_cpu_threads == 0
    assert short.num_gpu_cut / num_cpu_cut == pytest.approx(2388 / 2612, rel=0.03)  # 4 ms m = 1 ms n + 2.28 ms k


def test_open_splits_and_extremes_stay_what_they_are():
    """None and all of the batches; where the policy decides, as large a part."""
    short = ShortEpoch(1000, 600, 200)
    assert short.num_batches == 400
    assert [short.split_of_all(split) for split in (0, 1, 399, 400)] == [0, 201, 599, 1000]
    assert short.buffers_of_all(Buffers(2, 3, 100)) == Buffers(2, 3, 300)
    assert short.buffers_of_these(Buffers(2, 3, 300)) == Buffers(2, 3, 100)
    assert short.buffers_of_all(Buffers(2, 3)) == short.buffers_of_these(Buffers(2, 3)) == Buffers(2, 3)
    assert short.made_of_all(Buffers(2, 3), 100) == 250
    assert short.made_of_all(Buffers(2, 3, 100), 100) == 300


@pytest.fixture
def asked(monkeypatch):
    """An entry for every moment at which a simulated epoch's policy was asked what to do."""
    moments, next_actions = [], DualBufferPolicy.next_actions
    monkeypatch.setattr(DualBufferPolicy, "next_actions", lambda policy: moments.append(1) or next_actions(policy))
    return moments


@pytest.mark.long
@pytest.mark.parametrize("stage", STAGES)
@pytest.mark.parametrize("num_cpu_threads", [1, 15])
def test_planning_a_hundred_thousand_batches_simulates_few_events(asked, stage, num_cpu_threads):
    """Fewer than one epoch of so many has, whatever the threads; what comes out is a plan for all of them."""
    plan = dispatch(stage, 100_000, num_cpu_threads=num_cpu_threads)
    assert len(asked) < 200_000
    assert plan.num_batches == 100_000
    assert plan.buffers is not None
    assert plan.buffers.num_gpu_batches in (None, plan.num_gpu_made)
    assert 0 <= plan.gap < 0.15


@pytest.mark.long
@pytest.mark.parametrize("stage", STAGES)
@pytest.mark.parametrize(("num_batches", "num_cpu_threads"), [(700, 1), (1000, 15)])
def test_a_plan_made_on_a_part_is_as_good_as_one_made_on_all(monkeypatch, stage, num_batches, num_cpu_threads):
    """To two in a hundred, and it takes as long as it says."""
    plan = dispatch(stage, num_batches, num_cpu_threads=num_cpu_threads)
    assert plan.buffers is not None
    took_s = simulate(stage, plan.buffers, num_batches, num_cpu_threads).epoch_s
    assert plan.epoch_s == took_s
    monkeypatch.setattr(module, "ENOUGH", 10**9)
    assert took_s <= 1.02 * dispatch(stage, num_batches, num_cpu_threads=num_cpu_threads).epoch_s


@pytest.mark.long
@pytest.mark.parametrize("stage", STAGES)
@pytest.mark.parametrize("num_cpu_threads", [1, 15])
def test_a_long_epoch_takes_about_as_long_as_it_is_estimated(stage, num_cpu_threads):
    """Of which a part is played; as far off as the rounds of many threads make it."""
    plan = dispatch(stage, 4500, num_cpu_threads=num_cpu_threads)
    assert plan.buffers is not None
    took_s = simulate(stage, plan.buffers, 4500, num_cpu_threads).epoch_s
    assert plan.epoch_s == pytest.approx(took_s, rel=0.03)
