"""However an epoch ends, its threads end with it and no batch stays in memory."""

import gc
import threading
import weakref

import pytest
import torch
from torch_geometric.nn.models import GraphSAGE

from gnnplan.planner.minibatch.policy import Buffers
from gnnplan.runtime.mini_batch.executor import run_epoch
from gnnplan.runtime.mini_batch.lanes import StageFailedError
from tests.runtime.mini_batch.test_loader_stages import stages_of

LANES = {"CPU 0", "CPU 1", "PCIe", "GPU"}


class Watched:
    """Stages whose batches are remembered weakly, and whose stage `failing` raises at its third call."""

    def __init__(self, stages, failing=None, error=None):
        self.is_one_memory = stages.is_one_memory
        self.stages, self.failing, self.error = stages, failing, error  # the error's type and message
        self.batches, self.calls = [], 0

    def _call(self, name, *arguments):
        if name == self.failing:
            self.calls += 1
            if self.calls == 3:
                error, message = self.error
                raise error(message)
        result = getattr(self.stages, name)(*arguments)
        if name != "train":
            self.batches.append(weakref.ref(result.x))
        return result

    def cpu_batch(self, epoch, index):
        return self._call("cpu_batch", epoch, index)

    def gpu_batch(self, epoch, index):
        return self._call("gpu_batch", epoch, index)

    def transfer(self, batch):
        return self._call("transfer", batch)

    def train(self, batch):
        return self._call("train", batch)


@pytest.fixture
def stages():
    """A small SAGE on thirteen batches."""
    torch.manual_seed(0)
    return stages_of(GraphSAGE(12, 16, 2, 4))


def check_nothing_is_left(watched):
    """No lane runs, no batch is held."""
    gc.collect()
    assert not [thread.name for thread in threading.enumerate() if thread.name in LANES]
    assert len(watched.batches) > 2
    assert not [batch for batch in watched.batches if batch() is not None]


@pytest.mark.long
@pytest.mark.parametrize(
    ("failing", "error"),
    [
        ("train", (torch.OutOfMemoryError, "CUDA out of memory")),
        ("transfer", (torch.OutOfMemoryError, "CUDA out of memory")),
        ("gpu_batch", (RuntimeError, "illegal memory access")),
        ("cpu_batch", (MemoryError, "pinned memory is used up")),
    ],
)
def test_a_failing_stage_leaves_nothing(stages, failing, error):
    """A batch that does not fit, a pinned pool that is full, a sampler that raises: named, and cleaned up."""
    watched = Watched(stages, failing, error)
    message = ""
    try:
        run_epoch(watched, Buffers(3, 2, 6), 13, 0, num_cpu_threads=2, timeout_s=60)
    except StageFailedError as failed:
        message = str(failed)
    assert failing in message
    assert error[1] in message
    check_nothing_is_left(watched)


def test_one_slot_is_enough(stages):
    """A pinned pool of one batch is always full: the CPU waits, and the epoch is complete."""
    watched = Watched(stages)
    done = run_epoch(watched, Buffers(1, 1, 0), 13, 0, num_cpu_threads=2, timeout_s=60)
    assert sorted(done.order) == list(range(13))
    check_nothing_is_left(watched)
