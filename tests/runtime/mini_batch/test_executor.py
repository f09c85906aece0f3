"""The executor trains every batch once, in an order the policy allows, with the batch its index stands for."""

import threading

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gnnplan.planner.minibatch.policy import Buffers
from gnnplan.runtime.mini_batch.executor import run_epoch
from gnnplan.runtime.mini_batch.lanes import StageFailedError

BUFFERS = [Buffers(0, 1), Buffers(2, 2, 0), Buffers(2, 2), Buffers(2, 3, phased=True), Buffers(3, 2, 4, hold=2)]


class Recorded:
    """Stages that pass a batch's name on, and count how many batches are held at once."""

    def __init__(self, fails_at=None, is_one_memory=False):
        self.is_one_memory = is_one_memory
        self.fails_at, self.lock = fails_at, threading.Lock()
        self.in_host = self.most_in_host = 0
        self.trained = []

    def cpu_batch(self, epoch, index):
        if self.fails_at == ("cpu_batch", index):
            raise ValueError("no such vertex")
        with self.lock:
            self.in_host += 1
            self.most_in_host = max(self.most_in_host, self.in_host)
        return ("host", epoch, index)

    def transfer(self, batch):
        kind, epoch, index = batch
        assert kind == "host"
        with self.lock:
            self.in_host -= 1
        return ("device", epoch, index)

    def gpu_batch(self, epoch, index):
        return ("device", epoch, index)

    def train(self, batch):
        if self.fails_at == ("train", batch[2]):
            raise RuntimeError("out of memory")
        self.trained.append(batch)
        return float(batch[2])


@settings(max_examples=25, deadline=None)
@given(st.sampled_from(BUFFERS), st.integers(1, 12), st.integers(0, 3), st.integers(1, 3), st.booleans())
def test_every_batch_is_trained_once(buffers, num_batches, epoch, num_cpu_threads, is_one_memory):
    """In the recorded order, whoever made it; the CPU holds as many as it has slots and threads."""
    stages = Recorded(is_one_memory=is_one_memory)
    done = run_epoch(stages, buffers, num_batches, epoch, num_cpu_threads=num_cpu_threads, timeout_s=30)
    assert sorted(done.order) == list(range(num_batches))
    assert stages.trained == [("device", epoch, index) for index in done.order]
    assert done.losses == [float(index) for index in done.order]
    assert stages.most_in_host <= (buffers.cpu_slots + num_cpu_threads if buffers.cpu_slots else 0)
    made_by_cpu = {span.batch for span in done.spans if span.stage == "cpu_batch"}
    assert made_by_cpu | set(done.made_by_gpu) == set(range(num_batches))
    assert not made_by_cpu & set(done.made_by_gpu)


def test_slots_do_not_keep_threads_idle():
    """With one slot, four threads still make four batches at once: they wait for each other, or time out."""
    stages, together = Recorded(), threading.Barrier(4, timeout=10)
    make = stages.cpu_batch
    stages.cpu_batch = lambda epoch, index: (together.wait(), make(epoch, index))[1]
    done = run_epoch(stages, Buffers(1, 1, 0), 8, 0, num_cpu_threads=4, timeout_s=30)
    assert sorted(done.order) == list(range(8))


def test_a_fixed_split_is_kept():
    """Four of ten batches are the GPU's, whatever takes how long."""
    assert len(run_epoch(Recorded(), Buffers(3, 2, 4), 10, 0).made_by_gpu) == 4


def test_spans_tell_what_ran_when():
    """Every stage of every batch, none before the epoch began, and their means."""
    done = run_epoch(Recorded(), Buffers(2, 2, 3), 6, 0)
    assert sorted(span.stage for span in done.spans) == sorted(
        ["cpu_batch"] * 3 + ["transfer"] * 3 + ["gpu_batch"] * 3 + ["train"] * 6
    )
    assert all(0 <= span.start_s <= span.end_s for span in done.spans)
    assert done.mean_s("train") >= 0
    assert run_epoch(Recorded(), Buffers(0, 1), 2, 0).mean_s("transfer") is None


@pytest.mark.parametrize("stage", ["cpu_batch", "train"])
def test_a_stage_that_raises_ends_the_epoch(stage):
    """It is named with its batch, and no thread stays."""
    before = threading.active_count()
    with pytest.raises(StageFailedError, match=f"{stage} of batch 2 failed: "):
        run_epoch(Recorded(fails_at=(stage, 2)), Buffers(2, 2, 0), 6, 0, timeout_s=30)
    assert threading.active_count() == before
