"""Epoch after epoch the plan follows what was measured."""

import time

import pytest

from gnnplan.planner.minibatch.dispatch import dispatch
from gnnplan.planner.minibatch.stages import SideBySide, StageTimes
from gnnplan.runtime.mini_batch import train as module
from gnnplan.runtime.mini_batch.executor import Epoch, StageSpan
from gnnplan.runtime.mini_batch.train import has_moved, train, updated
from tests.runtime.mini_batch.test_executor import Recorded

TIMES = StageTimes(cpu_batching_s=0.04, gpu_batching_s=0.03, dma_s=0.02, model_s=0.01)


def test_every_epoch_trains_every_batch_and_has_its_number():
    """Batches of an epoch know which one it is."""
    stages = Recorded()
    done = list(train(stages, TIMES, 6, 3, cpu_slots=2, gpu_slots=2, num_cpu_threads=2, timeout_s=30))
    assert len(done) == 3
    assert [sorted(trained.epoch.order) for trained in done] == [list(range(6))] * 3
    assert [epoch for _, epoch, _ in stages.trained] == [0] * 6 + [1] * 6 + [2] * 6


def test_what_was_measured_moves_the_estimate_half_way():
    """With two threads a CPU batch comes twice as often as one takes; what did not run stays."""
    together = [StageSpan("cpu_batch", thread, 0.0, 0.1) for thread in range(2)]
    epoch = Epoch(spans=[*together, StageSpan("train", 0, 0.1, 0.13)])
    again = updated(TIMES, epoch, num_cpu_threads=2)
    assert again.cpu_batching_s == pytest.approx(0.045)
    assert again.model_s == pytest.approx(0.02)
    assert (again.gpu_batching_s, again.dma_s) == (TIMES.gpu_batching_s, TIMES.dma_s)
    assert again.resident_batching_s is None


def cpu_epoch(num_threads, length_s, num_rounds=1):
    """So many threads side by side, each one batch after another."""
    starts_s = [number * length_s for number in range(num_rounds) for _ in range(num_threads)]
    return Epoch(spans=[StageSpan("cpu_batch", i, at_s, at_s + length_s) for i, at_s in enumerate(starts_s)])


def test_few_threads_at_work_do_not_tell_what_all_of_them_take():
    """Four of fifteen have the memory to themselves: twice as fast is no news, twice as slow is."""
    times = TIMES.model_copy(update={"cpu_batching_s": 0.004})  # 60 ms a batch with all fifteen
    assert updated(times, cpu_epoch(4, 0.03), 15).cpu_batching_s == 0.004
    assert updated(times, cpu_epoch(4, 0.12), 15).cpu_batching_s == pytest.approx(0.006)
    assert updated(times, cpu_epoch(15, 0.03, num_rounds=2), 15).cpu_batching_s == pytest.approx(0.003)


def test_of_an_epoch_the_rounds_count_in_which_most_threads_worked():
    """Not its last one, with two of five."""
    spans = cpu_epoch(5, 0.2, num_rounds=3).spans + [StageSpan("cpu_batch", 20 + i, 0.6, 0.7) for i in range(2)]
    assert updated(TIMES, Epoch(spans=spans), 5).cpu_batching_s == pytest.approx(0.04)
    early = [StageSpan("cpu_batch", i, 0.1 * i, 0.1 * i + 0.5) for i in range(20)]  # five at work but at both ends
    assert updated(TIMES, Epoch(spans=early), 5).cpu_batching_s == pytest.approx((0.04 + 0.1) / 2)


def test_batches_from_the_device_alone_are_the_gpus_in_every_plan():
    """Both estimates move together."""
    epoch = Epoch(spans=[StageSpan("gpu_batch", 0, 0.0, 0.05)])
    again = updated(TIMES.model_copy(update={"resident_batching_s": 0.03}), epoch, num_cpu_threads=1)
    assert again.resident_batching_s == again.gpu_batching_s == pytest.approx(0.04)


def test_steps_beside_resting_threads_have_an_estimate_of_their_own():
    """An epoch without CPU batches moves that one, any other the one beside threads at work."""
    times = TIMES.model_copy(update={"model_alone_s": 0.006})
    train_span = StageSpan("train", 0, 0.1, 0.12)
    alone = updated(times, Epoch(spans=[StageSpan("gpu_batch", 0, 0.0, 0.03), train_span]), num_cpu_threads=1)
    assert (alone.model_s, alone.model_alone_s) == (0.01, pytest.approx(0.013))
    beside = updated(times, Epoch(spans=[StageSpan("cpu_batch", 0, 0.0, 0.04), train_span]), num_cpu_threads=1)
    assert (beside.model_s, beside.model_alone_s) == (pytest.approx(0.015), 0.006)


def test_stages_beside_the_other_sides_have_estimates_of_their_own():
    """An epoch of which both made batches moves those, and only those; it is planned again then."""
    both = SideBySide(cpu_batching_s=0.06, gpu_batching_s=0.05, dma_s=0.04, model_s=0.03)
    times = TIMES.model_copy(update={"together": both})
    spans = [StageSpan("cpu_batch", 0, 0.0, 0.08), StageSpan("gpu_batch", 1, 0.0, 0.03)]
    mixed = updated(times, Epoch(spans=spans), num_cpu_threads=1)
    assert mixed.together is not None
    assert mixed.together.model_dump() == {
        "cpu_batching_s": pytest.approx(0.07),
        "gpu_batching_s": pytest.approx(0.04),
        "dma_s": 0.04,
        "model_s": 0.03,
    }
    assert mixed.model_copy(update={"together": both}) == times
    assert has_moved(times, mixed)
    alone = updated(times, Epoch(spans=spans[:1]), num_cpu_threads=1)
    assert (alone.cpu_batching_s, alone.together) == (pytest.approx(0.06), both)


def test_an_epoch_with_everything_on_the_device_is_the_gpus_alone():
    """Where that is planned, no batch is made by the CPU and none transferred."""
    times = TIMES.model_copy(update={"resident_batching_s": 1e-4})
    (only,) = train(Recorded(), times, 5, 1, timeout_s=30)
    assert (only.plan.route, only.plan.buffers) == ("resident", None)
    assert only.epoch.made_by_gpu == only.epoch.order == [0, 1, 2, 3, 4]
    assert {span.stage for span in only.epoch.spans} == {"gpu_batch", "train"}


class SlowGpu(Recorded):
    """Its batches take 50 ms, all else next to nothing."""

    def gpu_batch(self, epoch, index):
        time.sleep(0.05)
        return super().gpu_batch(epoch, index)


def test_a_drift_moves_the_split():
    """A GPU slower than it was profiled makes batches of the first epoch, and none once that is known."""
    profiled = StageTimes(cpu_batching_s=0.004, gpu_batching_s=0.003, dma_s=0.002, model_s=0.001)
    first, second = train(SlowGpu(), profiled, 8, 2, timeout_s=30)
    assert (first.plan.route, second.plan.route) == ("collective", "CPU only")
    assert first.epoch.made_by_gpu
    assert not second.epoch.made_by_gpu


def test_planning_is_within_the_epochs_time(monkeypatch):
    """An epoch counts from before its plan was made."""

    def slowly(*arguments, **options):
        time.sleep(0.2)
        return dispatch(*arguments, **options)

    monkeypatch.setattr(module, "dispatch", slowly)
    (only,) = train(Recorded(), TIMES, 6, 1, timeout_s=30)
    assert min(span.start_s for span in only.epoch.spans) >= 0.2


def epoch_like(times):
    """An epoch whose stages took what they were known to take."""
    seconds = {"cpu_batch": times.cpu_batching_s, "train": times.model_s}
    return Epoch(spans=[StageSpan(stage, 0, 0.0, length_s) for stage, length_s in seconds.items()])


def test_an_epoch_is_planned_again_where_a_stage_has_moved(monkeypatch):
    """By more than two in a hundred since the last plan, at once or little by little; else the plan stays."""
    planned, slower = [], [1.0, 1.01, 1.01, 1.01, 1.01, 1.5, 1.0]  # how much longer training takes, epoch by epoch
    times = [TIMES]

    def run_epoch(*_arguments, **_options):
        model_s = times[-1].model_s * slower.pop(0)
        done = epoch_like(times[-1].model_copy(update={"model_s": model_s}))
        times.append(updated(times[-1], done, 1))
        return done

    def plan(asked, *arguments, **options):
        planned.append(asked.model_s)
        return dispatch(asked, *arguments, **options)

    monkeypatch.setattr(module, "run_epoch", run_epoch)
    monkeypatch.setattr(module, "dispatch", plan)
    done = list(train(Recorded(), TIMES, 6, 7))
    assert planned == [times[epoch].model_s for epoch in (0, 5, 6)]
    assert [trained.plan is done[0].plan for trained in done] == [True] * 5 + [False] * 2


def test_a_stage_moves_by_a_share_of_its_time():
    """Longer or shorter; one that took no time by any."""
    assert not has_moved(TIMES, TIMES.model_copy(update={"model_s": 0.0101, "dma_s": 0.0197}))
    assert has_moved(TIMES, TIMES.model_copy(update={"model_s": 0.0103}))
    assert has_moved(TIMES, TIMES.model_copy(update={"dma_s": 0.0195}))
    free = TIMES.model_copy(update={"dma_s": 0.0})
    assert not has_moved(free, free)
    assert has_moved(free, TIMES)
