"""Epoch after epoch the plan follows what was measured."""

import pytest

from planner.minibatch.stages import StageTimes
from runtime.mini_batch.executor import Epoch, StageSpan
from runtime.mini_batch.train import train, updated
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
    epoch = Epoch(spans=[StageSpan("cpu_batch", 0, 0.0, 0.08), StageSpan("train", 0, 0.1, 0.13)])
    again = updated(TIMES, epoch, num_cpu_threads=2)
    assert again.cpu_batching_s == pytest.approx(0.04)
    assert again.model_s == pytest.approx(0.02)
    assert (again.gpu_batching_s, again.dma_s) == (TIMES.gpu_batching_s, TIMES.dma_s)
    assert again.resident_batching_s is None


def test_batches_from_the_device_alone_are_the_gpus_in_every_plan():
    """Both estimates move together."""
    epoch = Epoch(spans=[StageSpan("gpu_batch", 0, 0.0, 0.05)])
    again = updated(TIMES.model_copy(update={"resident_batching_s": 0.03}), epoch, num_cpu_threads=1)
    assert again.resident_batching_s == again.gpu_batching_s == pytest.approx(0.04)


def test_an_epoch_with_everything_on_the_device_is_the_gpus_alone():
    """Where that is planned, no batch is made by the CPU and none transferred."""
    times = TIMES.model_copy(update={"resident_batching_s": 1e-4})
    (only,) = train(Recorded(), times, 5, 1, timeout_s=30)
    assert (only.plan.route, only.plan.buffers) == ("resident", None)
    assert only.epoch.made_by_gpu == only.epoch.order == [0, 1, 2, 3, 4]
    assert {span.stage for span in only.epoch.spans} == {"gpu_batch", "train"}


def test_a_drift_moves_the_split():
    """Stages that turn out instantaneous where the profile had them slow change who makes the batches."""
    slow_gpu = TIMES.model_copy(update={"gpu_batching_s": 10.0, "cpu_batching_s": 1e-3, "dma_s": 1e-3})
    (only,) = train(Recorded(), slow_gpu, 8, 1, timeout_s=30)
    assert only.plan.route == "CPU only"
    first, *_, last = train(Recorded(), slow_gpu.model_copy(update={"cpu_batching_s": 9.0}), 8, 6, timeout_s=30)
    assert last.plan.epoch_s < first.plan.epoch_s
