"""A simulated epoch: no faster than its bound, resources never overbooked, known cases to the nanosecond."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gnnplan.planner.minibatch.bound import epoch_bound
from gnnplan.planner.minibatch.policy import Buffers, DualBufferPolicy
from gnnplan.planner.minibatch.simulate import simulate, simulate_within
from gnnplan.planner.minibatch.stages import SideBySide, StageTimes


def times(cpu, gpu, dma, model, **more):
    """Stage times in milliseconds."""
    return StageTimes(cpu_batching_s=cpu / 1e3, gpu_batching_s=gpu / 1e3, dma_s=dma / 1e3, model_s=model / 1e3, **more)


MS = st.integers(1, 60)
TIMES = st.builds(times, MS, MS, MS, MS)
SECONDS = MS.map(lambda ms: ms / 1e3)
FIELDS = ("cpu_batching_s", "gpu_batching_s", "dma_s", "model_s")
BOTH = st.builds(SideBySide, **dict.fromkeys(FIELDS, SECONDS))
WITH_BOTH = st.builds(times, MS, MS, MS, MS, together=BOTH)


@settings(max_examples=200, deadline=None)
@given(
    TIMES | WITH_BOTH,
    st.integers(1, 5),
    st.integers(1, 5),
    st.none() | st.integers(0, 20),
    st.booleans(),
    st.integers(1, 3),
    st.integers(1, 25),
)
def test_no_epoch_is_shorter_than_the_bound_nor_a_resource_busier_than_the_epoch(
    stage, cpu_slots, gpu_slots, num_gpu, phased, hold, num_batches
):
    """Whatever the policy, also where stages take longer or shorter beside the other side's."""
    buffers = Buffers(cpu_slots, gpu_slots, num_gpu, phased, hold)
    played = simulate(stage, buffers, num_batches)
    assert played.epoch_s >= epoch_bound(stage, num_batches).seconds - 1e-6
    stage = stage.where_both_make if buffers.both_make(num_batches) else stage
    assert max(played.cpu_busy_s, played.pcie_busy_s, played.gpu_busy_s) <= played.epoch_s + 1e-9
    assert played.gpu_busy_s + played.gpu_waiting_s == pytest.approx(played.epoch_s)
    made = played.num_gpu_made
    assert played.cpu_busy_s == pytest.approx((num_batches - made) * stage.cpu_batching_s)
    assert played.gpu_busy_s == pytest.approx(num_batches * stage.model_s + made * stage.gpu_batching_s)


def test_both_sides_take_from_each_other_what_was_measured():
    """Not where one makes all."""
    stage = times(40, 30, 20, 10).model_copy(
        update={"together": SideBySide(cpu_batching_s=0.08, gpu_batching_s=0.06, dma_s=0.03, model_s=0.015)}
    )
    mixed = simulate(stage, Buffers(2, 2, 4), 10)
    assert mixed == simulate(stage.where_both_make, Buffers(2, 2, 4), 10)
    assert mixed.cpu_busy_s == pytest.approx(6 * 0.08)
    for extreme in (Buffers(2, 2, 0), Buffers(2, 2, 10), Buffers(0, 1)):
        assert simulate(stage, extreme, 10) == simulate(times(40, 30, 20, 10), extreme, 10)


def test_the_gpu_alone_does_one_thing_after_another():
    """Batching and training share it."""
    assert simulate(times(40, 30, 20, 10), Buffers(0, 1), 5).epoch_s == pytest.approx(5 * 0.04)


def test_the_cpu_alone_is_a_pipeline():
    """The slowest stage sets the pace, the others are the way in and out."""
    for stage, expected_ms in ((times(40, 1, 20, 10), 5 * 40 + 30), (times(5, 1, 20, 10), 5 + 5 * 20 + 10)):
        assert simulate(stage, Buffers(2, 2, 0), 5).epoch_s == pytest.approx(expected_ms / 1e3)
    assert simulate(times(5, 1, 20, 100), Buffers(2, 2, 0), 5).epoch_s == pytest.approx((25 + 500) / 1e3)


def test_one_slot_makes_stages_wait():
    """With one slot in device memory a transfer waits until the batch before it is being trained."""
    roomy, narrow = (simulate(times(1, 1, 10, 30), Buffers(2, slots, 0), 4) for slots in (2, 1))
    assert narrow.epoch_s == roomy.epoch_s == pytest.approx((1 + 10 + 4 * 30) / 1e3)
    assert simulate(times(1, 1, 30, 10), Buffers(1, 1, 0), 4).cpu_blocked_s > 0


def test_blocking_tells_which_side_is_too_slow():
    """A slow CPU makes the GPU wait; a slow GPU leaves the CPU without a slot."""
    slow_cpu = simulate(times(100, 50, 1, 1), Buffers(2, 2, 2), 10)
    assert slow_cpu.gpu_waiting_s > slow_cpu.cpu_blocked_s == 0
    slow_gpu = simulate(times(1, 50, 1, 50), Buffers(2, 2, 5), 10)
    assert slow_gpu.cpu_blocked_s > slow_gpu.gpu_waiting_s


def test_threads_bring_their_batches_together():
    """Four threads with 10 ms a batch between them: eight come four and four, 40 and 80 ms in, and are trained then."""
    stage = times(10, 1e6, 0, 2)
    assert simulate(stage, Buffers(4, 4, 0), 8, num_cpu_threads=4).epoch_s == pytest.approx((80 + 4 * 2) / 1e3)
    assert simulate(stage, Buffers(4, 4, 0), 8).epoch_s == pytest.approx((80 + 2) / 1e3)
    # Nine: the last one is made by one thread alone, in its own time.
    assert simulate(stage, Buffers(4, 4, 0), 9, num_cpu_threads=4).epoch_s == pytest.approx((120 + 2) / 1e3)


@settings(max_examples=100, deadline=None)
@given(
    TIMES, st.integers(1, 4), st.integers(1, 4), st.none() | st.integers(0, 20), st.integers(1, 5), st.integers(1, 20)
)
def test_threads_change_the_work_not_and_their_bound_holds(
    stage, cpu_slots, gpu_slots, num_gpu, num_cpu_threads, num_batches
):
    """The CPU's work is as much as one maker's, no thread is busier than the epoch, the bound for as many holds."""
    played = simulate(stage, Buffers(cpu_slots, gpu_slots, num_gpu), num_batches, num_cpu_threads)
    made = played.num_gpu_made
    assert played.epoch_s >= epoch_bound(stage, num_batches, num_cpu_threads).seconds - 1e-6
    assert played.cpu_busy_s == pytest.approx((num_batches - made) * stage.cpu_batching_s)
    assert played.cpu_busy_s + played.cpu_blocked_s <= played.epoch_s + 1e-9


@settings(max_examples=200, deadline=None)
@given(
    TIMES,
    st.integers(1, 5),
    st.integers(1, 5),
    st.none() | st.integers(0, 90),
    st.booleans(),
    st.integers(1, 4),
    st.integers(1, 90),
    st.floats(0.3, 1.5),
)
def test_no_epoch_within_the_limit_is_left(
    stage, cpu_slots, gpu_slots, num_gpu, phased, num_cpu_threads, num_batches, share
):
    """What is not played to its end is longer; what is, is what it is without a limit."""
    buffers = Buffers(cpu_slots, gpu_slots, num_gpu, phased)
    alone = simulate(stage, buffers, num_batches, num_cpu_threads)
    for limit_s in (alone.epoch_s, share * alone.epoch_s):
        within = simulate_within(limit_s, stage, buffers, num_batches, num_cpu_threads)
        assert within == alone or (within is None and alone.epoch_s > limit_s)


def test_an_epoch_that_cannot_keep_the_limit_is_not_played(monkeypatch):
    """Where the GPU has more to do than that, no batch is trained; where batches wait too long, not all are."""
    trained, end_train = [], DualBufferPolicy.end_train
    monkeypatch.setattr(DualBufferPolicy, "end_train", lambda policy: trained.append(1) or end_train(policy))
    assert simulate_within(2.4, times(1, 30, 1, 10), Buffers(2, 2, 50), 100) is None  # 50 x 30 ms + 100 x 10 ms
    assert not trained
    stage, waiting = times(40, 30, 20, 10), Buffers(2, 2, 50, phased=True)
    limit_s = (2.5 + simulate(stage, waiting, 100).epoch_s) / 2  # the GPU's work, and some of the waiting
    trained.clear()
    assert simulate_within(limit_s, stage, waiting, 100) is None
    assert 0 < len(trained) < 100
