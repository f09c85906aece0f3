"""Plans: at least as good as every extreme and as the paper's loop, and near the bound."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gnnplan.planner.minibatch import dispatch as module
from gnnplan.planner.minibatch.dispatch import dispatch, paper_loop
from gnnplan.planner.minibatch.policy import Buffers
from gnnplan.planner.minibatch.simulate import simulate, simulate_within
from gnnplan.planner.minibatch.stages import StageTimes
from tests.planner.minibatch.test_simulate import TIMES, times

BREAKING = [times(40, 30, 20, 10), times(8.4, 30.2, 6.1, 4.0), times(100, 11, 10, 5)]


@settings(max_examples=30, deadline=None)
@given(TIMES, st.integers(1, 16), st.integers(0, 4), st.integers(1, 4))
def test_no_extreme_is_better(stage, num_batches, cpu_slots, gpu_slots):
    """CPU only, GPU only and the paper's plans with the same slots."""
    plan = dispatch(stage, num_batches, cpu_slots=cpu_slots, gpu_slots=gpu_slots)
    others = [Buffers(0, 1)]
    if cpu_slots:
        others += [Buffers(cpu_slots, gpu_slots, 0), Buffers(cpu_slots, gpu_slots)]
        others += paper_loop(stage, num_batches, cpu_slots=cpu_slots, gpu_slots=gpu_slots)
    assert all(plan.epoch_s <= simulate(stage, b, num_batches).epoch_s * 1.0011 for b in others)
    assert plan.gap >= -1e-6
    assert plan.buffers is not None
    assert simulate(stage, plan.buffers, num_batches).epoch_s == plan.epoch_s


@pytest.mark.long
@settings(max_examples=15, deadline=None)
@given(TIMES, st.integers(450, 1500), st.sampled_from([1, 7]))
def test_no_extreme_is_better_of_a_long_epoch(stage, num_batches, num_threads):
    """Where most is left out, it matters which side makes that."""
    plan = dispatch(stage, num_batches, num_cpu_threads=num_threads)
    for extreme in (Buffers(0, 1), Buffers(10, 10, 0)):
        assert plan.epoch_s <= simulate(stage, extreme, num_batches, num_threads).epoch_s * 1.0011


def test_a_long_epoch_is_the_gpus_where_the_bound_would_share_it():
    """One batch of the CPU's is worth its while at the begin, so of 403 batches the GPU makes 402; of 1,000 all."""
    assert dispatch(times(11.868731, 1.358318, 22.234584, 3.436492), 1000).route == "GPU only"


@pytest.mark.parametrize("stage", BREAKING)
def test_long_epochs_come_close_to_the_bound(stage):
    """Also for the stage times that a comparison of unequal batch counts gets wrong."""
    assert dispatch(stage, 1000).gap < 0.01


@pytest.mark.parametrize("stage", BREAKING)
def test_the_paper_loop_ends_and_keeps_its_best(stage):
    """It visits no plan twice and the first of what it returns is the fastest."""
    plans = paper_loop(stage, 200)
    assert len(set(plans)) == len(plans) >= 1
    epochs_s = [simulate(stage, plan, 200).epoch_s for plan in plans]
    assert epochs_s == sorted(epochs_s)


def test_everything_on_the_device_wins_where_it_fits():
    """Batching there needs no PCIe; where it is slower than the rest, it does not win."""
    stage = times(40, 30, 20, 10)
    resident = dispatch(stage.model_copy(update={"resident_batching_s": 5e-3}), 100)
    assert (resident.route, resident.epoch_s) == ("resident", pytest.approx(1.5))
    slow = dispatch(stage.model_copy(update={"resident_batching_s": 1.0}), 100)
    assert slow.route == "collective"


def test_a_resident_plan_has_the_bound_of_those_that_could_be():
    """15 ms a batch from the device alone; with 32 of a hundred by the CPU it could be 13.4, and nothing over PCIe."""
    stage = times(40, 30, 20, 10, resident_batching_s=5e-3)
    plan = dispatch(stage, 100)
    assert plan.route == "resident"
    assert plan.bound.seconds == pytest.approx((68 * 15 + 32 * 10) / 1e3)
    assert plan.gap == pytest.approx(1500 / 1340 - 1)
    assert dispatch(times(1000, 30, 20, 10, resident_batching_s=5e-3), 10).gap == pytest.approx(0)


def test_everything_on_the_device_wins_where_it_is_as_good():
    """Where all of the GPU's batches come from there: the same route and time, but for the simulator's rounding."""
    stage = StageTimes(cpu_batching_s=1.0, gpu_batching_s=0.001 / 3, dma_s=1.0, model_s=0.002 / 3)
    assert dispatch(stage, 100).route == "GPU only"
    assert dispatch(stage.model_copy(update={"resident_batching_s": stage.gpu_batching_s}), 100).route == "resident"


@settings(max_examples=20, deadline=None)
@given(TIMES, st.integers(1, 16), st.integers(1, 5))
def test_plans_are_made_for_the_threads_that_there_are(stage, num_batches, num_cpu_threads):
    """Simulated with them, and no worse than either extreme with them."""
    plan = dispatch(stage, num_batches, num_cpu_threads=num_cpu_threads)
    assert plan.buffers is not None
    assert simulate(stage, plan.buffers, num_batches, num_cpu_threads).epoch_s == plan.epoch_s
    for extreme in (Buffers(0, 1), Buffers(10, 10, 0)):
        assert plan.epoch_s <= simulate(stage, extreme, num_batches, num_cpu_threads).epoch_s * 1.0011


@settings(max_examples=12, deadline=None)
@given(TIMES, st.integers(60, 120), st.sampled_from([7, 15, 31]))
def test_no_other_split_is_better_with_many_threads(stage, num_batches, num_cpu_threads):
    """By more than one in a hundred: also where a batch more for the CPU is a whole round of its threads more."""
    stage = stage.model_copy(update={"cpu_batching_s": stage.cpu_batching_s / 4})  # so that the CPU has its part
    plan = dispatch(stage, num_batches, num_cpu_threads=num_cpu_threads)
    limit_s = plan.epoch_s / 1.01
    for split in range(num_batches + 1):
        other = simulate_within(limit_s, stage, Buffers(10, 10, split), num_batches, num_cpu_threads)
        assert other is None or other.epoch_s >= limit_s, split
    assert plan.gap >= -1e-6


def test_threads_are_given_whole_rounds():
    """The plan of an H200's fifteen threads: within a percent of 55 batches by the GPU, three rounds by the CPU."""
    stage = times(4, 2.28, 0.5, 1)
    best_s = simulate(stage, Buffers(10, 10, 55), 100, num_cpu_threads=15).epoch_s
    assert dispatch(stage, 100, num_cpu_threads=15).epoch_s <= 1.01 * best_s


def test_routes_have_names():
    """Who makes the batches, in a word."""
    assert dispatch(times(1, 900, 1, 2), 50).route == "CPU only"
    assert dispatch(times(900, 1, 800, 2), 50).route == "GPU only"
    assert dispatch(times(40, 30, 20, 10), 50).route == "collective"


def test_a_plan_takes_no_more_slots_than_it_needs():
    """A pipeline of equal stages gains nothing from ten slots."""
    plan = dispatch(times(10, 1000, 10, 10), 100)
    assert plan.buffers is not None
    assert plan.buffers.gpu_slots <= 2
    assert plan.buffers.cpu_slots <= 2


@pytest.mark.long
@settings(max_examples=25, deadline=None)
@given(TIMES, st.integers(1, 60), st.integers(1, 3))
def test_leaving_longer_epochs_early_changes_no_plan(stage, num_batches, num_cpu_threads):
    """The same buffers, simulated as long, as where every candidate is played to its end."""
    plan = dispatch(stage, num_batches, num_cpu_threads=num_cpu_threads)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module, "simulate_within", lambda _limit_s, *asked: simulate(*asked))
        assert dispatch(stage, num_batches, num_cpu_threads=num_cpu_threads) == plan
