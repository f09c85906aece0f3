"""What the profile makes of the spans that three short epochs leave behind."""

import pytest

from gnnplan.planner.minibatch.dispatch import dispatch
from gnnplan.planner.minibatch.policy import Buffers
from gnnplan.planner.minibatch.simulate import simulate
from gnnplan.profiles.errors import UserError
from gnnplan.runtime.mini_batch import profile
from gnnplan.runtime.mini_batch.executor import Epoch, StageSpan
from gnnplan.runtime.mini_batch.profile import profile_stages
from tests.runtime.mini_batch.test_executor import Recorded

SECONDS = {"cpu_batch": 0.08, "transfer": 0.01, "gpu_batch": 0.05, "train": 0.02}
ALONE = {"train": 0.012}  # while the CPU's threads rest
BOTH = {"cpu_batch": 0.1, "transfer": 0.015, "gpu_batch": 0.07, "train": 0.025}


@pytest.fixture
def asked(monkeypatch):
    """How epochs were asked for.

    Stages take `SECONDS` (`ALONE` in the GPU's epoch, `BOTH` in that of both), with a batch in two a tenth longer; the
    first ones a minute.
    """
    calls = []

    def run_epoch(stages, buffers, num_batches, epoch, *, num_cpu_threads, timeout_s):
        calls.append((buffers, num_batches))
        means = {name: SECONDS[name] for name in ("cpu_batch", "transfer", "train")}
        if buffers.both_make(num_batches):
            means = BOTH
        elif buffers.cpu_slots == 0:
            means = {"gpu_batch": SECONDS["gpu_batch"]} | ALONE
        warm_up = 2 * num_cpu_threads
        spans = []
        for batch in range(num_batches):
            for name, mean_s in means.items():
                seconds = 60.0 if batch < warm_up else mean_s * (1.1 if batch % 2 else 0.9)
                spans.append(StageSpan(name, batch, 1.0, 1.0 + seconds))
        return Epoch(spans=spans)

    monkeypatch.setattr(profile, "run_epoch", run_epoch)
    return calls


@pytest.mark.parametrize("num_cpu_threads", [1, 3])
def test_times_are_means_after_the_warm_up(asked, num_cpu_threads):
    """Two batches a thread are no evidence; a CPU batch comes as often as there are threads."""
    made = profile_stages(Recorded(), 12, num_distinct=5, num_cpu_threads=num_cpu_threads)
    assert made.times.cpu_batching_s == pytest.approx(0.08 / num_cpu_threads)
    assert (made.times.gpu_batching_s, made.times.dma_s) == (pytest.approx(0.05), pytest.approx(0.01))
    assert (made.times.model_s, made.times.model_alone_s) == (pytest.approx(0.02), pytest.approx(0.012))
    assert made.times.resident_batching_s is None
    assert made.variation == {name: pytest.approx(0.1) for name in SECONDS}
    assert [num_batches for _, num_batches in asked] == [12 + 2 * num_cpu_threads] * 3
    assert made.times.together is not None
    assert made.times.together.model_dump() == {
        "cpu_batching_s": pytest.approx(0.1 / num_cpu_threads),
        "gpu_batching_s": pytest.approx(0.07),
        "dma_s": pytest.approx(0.015),
        "model_s": pytest.approx(0.025),
    }


def test_each_route_has_its_epoch(asked):
    """Everything by the CPU, everything by the GPU, then by both; few slots, and no more than fit."""
    profile_stages(Recorded(), 4, num_distinct=5)
    assert [buffers for buffers, _ in asked] == [Buffers(2, 2, 0), Buffers(0, 1), Buffers(2, 2)]
    profile_stages(Recorded(), 4, num_distinct=5, gpu_slots=1)
    assert [buffers for buffers, _ in asked[3:]] == [Buffers(2, 1, 0), Buffers(0, 1), Buffers(2, 1)]


def test_where_one_side_makes_all_there_is_no_time_of_both(monkeypatch):
    """It was so much faster that the other made none after the warm-up: as each alone."""

    def run_epoch(stages, buffers, num_batches, epoch, **_):
        names = ("cpu_batch", "transfer", "train") if buffers.num_gpu_batches == 0 else ("gpu_batch", "train")
        return Epoch(spans=[StageSpan(name, batch, 0.0, 0.01) for batch in range(num_batches) for name in names])

    monkeypatch.setattr(profile, "run_epoch", run_epoch)
    assert profile_stages(Recorded(), 4, num_distinct=5).times.together is None


def test_what_the_gpu_makes_from_the_device_alone_is_the_resident_route(asked):
    """Measured, not assumed."""
    times = profile_stages(Recorded(), 4, num_distinct=5, is_resident=True).times
    assert times.resident_batching_s == times.gpu_batching_s == pytest.approx(0.05)


def test_plans_without_the_cpu_have_the_steps_measured_without_it(asked):
    """GPU only, and with everything resident: 12 ms a step; with the CPU's threads beside it 20."""
    times = profile_stages(Recorded(), 4, num_distinct=5, is_resident=True).times
    assert simulate(times, Buffers(0, 1), 10).epoch_s == pytest.approx(10 * (0.05 + 0.012))
    assert simulate(times, Buffers(2, 2, 10), 10).epoch_s == pytest.approx(10 * (0.05 + 0.012))
    assert simulate(times, Buffers(2, 2, 0), 10).gpu_busy_s == pytest.approx(10 * 0.02)
    assert simulate(times, Buffers(2, 2, 5), 10).gpu_busy_s == pytest.approx(10 * 0.025 + 5 * 0.07)
    plan = dispatch(times.model_copy(update={"cpu_batching_s": 10.0, "together": None}), 10)
    assert (plan.route, plan.epoch_s) == ("resident", pytest.approx(10 * (0.05 + 0.012)))


def test_without_a_batch_there_is_nothing_to_measure(asked):
    """Said in one line before any epoch is run."""
    with pytest.raises(UserError, match="there is no batch to train"):
        profile_stages(Recorded(), 4, num_distinct=0)
    assert not asked
