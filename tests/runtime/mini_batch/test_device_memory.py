"""What a batch takes of a device is measured, and the source for the GPU's batches fits what is left."""

import copy

import pytest
import torch
from torch_geometric.nn.models import GraphSAGE

from gnnplan.planner.minibatch.dispatch import dispatch
from gnnplan.planner.minibatch.policy import Buffers
from gnnplan.planner.minibatch.room import BatchNeeds
from gnnplan.profiles.errors import NoPlanFitsError
from gnnplan.runtime.mini_batch.device_memory import CudaMemory, bytes_of, fill_device, measure_needs
from gnnplan.runtime.mini_batch.executor import run_epoch
from gnnplan.runtime.mini_batch.profile import profile_stages
from gnnplan.runtime.sampling.loader import NeighborLoader
from tests.runtime.mini_batch.test_loader_stages import data, stages_of

ON_CUDA = torch.cuda.is_available()
DEVICE = torch.device("cuda" if ON_CUDA else "cpu")  # where Triton's interpreter stands in for one
ONE_BY_ONE = Buffers(0, 1)


class FakeMemory:
    """Counts nothing: says what it is told."""

    def __init__(self, free_bytes, peak_bytes=0):
        self.free, self.peak, self.began = free_bytes, peak_bytes, 0

    def free_bytes(self):
        return self.free

    def begin(self):
        self.began += 1

    def peak_bytes(self):
        assert self.began == 1
        return self.peak


@pytest.fixture
def stages():
    """A small SAGE on thirteen batches of a graph of 400 vertices."""
    torch.manual_seed(0)
    return stages_of(GraphSAGE(12, 16, 2, 4), device=DEVICE)


def test_a_batch_is_as_large_as_its_tensors():
    """Features, labels, edges, ids."""
    graph = data()
    assert bytes_of(graph) == graph.x.nbytes + graph.y.nbytes + graph.edge_index.nbytes


def test_needs_are_the_most_of_a_few_batches(stages):
    """The largest batch, and the peak that the memory counted, where that is more than making a batch takes."""
    largest = max(bytes_of(stages.cpu_batch(0, index)) for index in range(3))
    assert measure_needs(stages, FakeMemory(0, peak_bytes=10**9), num_distinct=13) == BatchNeeds(largest, 10**9)
    needs = measure_needs(stages, FakeMemory(0), num_distinct=1)
    batch = stages.cpu_batch(0, 0)
    assert needs.batch_bytes == bytes_of(batch)
    assert needs.step_bytes == bytes_of(batch) + 128 * (batch.num_nodes + batch.num_edges)


def test_measuring_leaves_the_model_as_it_was(stages):
    """Batches are trained, and that is undone."""
    before = copy.deepcopy(stages.model.state_dict())
    fill_device(stages, FakeMemory(10**8))
    assert all(torch.equal(before[name], value) for name, value in stages.model.state_dict().items())
    assert not stages.optimizer.state_dict()["state"]


@pytest.mark.long
def test_a_device_with_room_keeps_everything_and_trains_from_there(stages):
    """Measured, planned as resident where that is fastest, and trained with the losses of the CPU's batches."""
    filled = fill_device(stages, FakeMemory(10**8))
    kept_bytes = filled.kept_bytes
    assert filled.num_slots == 10
    assert stages.is_resident
    assert kept_bytes > data().x.nbytes + 3000 * 4
    with stages.undone():
        profile = profile_stages(stages, 2, num_distinct=13, is_resident=stages.is_resident, timeout_s=60)
    assert profile.times.resident_batching_s == profile.times.gpu_batching_s > 0
    slow_cpu = profile.times.model_copy(update={"cpu_batching_s": 100.0})
    assert dispatch(slow_cpu, 13).route == "resident"
    trained = run_epoch(stages, ONE_BY_ONE, 13, 0, timeout_s=60)
    torch.manual_seed(0)
    alone = run_epoch(stages_of(GraphSAGE(12, 16, 2, 4), device=DEVICE), ONE_BY_ONE, 13, 0, timeout_s=60)
    assert trained.losses == pytest.approx(alone.losses, rel=1e-4 if ON_CUDA else 1e-5)


def test_a_tight_device_keeps_a_part(stages):
    """What is kept fits beside batches and steps."""
    needs = measure_needs(stages, FakeMemory(0), num_distinct=13)
    for_rows = 30_000  # the whole graph takes 62 thousand
    left = 3 * needs.batch_bytes + for_rows  # one that waits and another in work, held by either stream's pool
    filled = fill_device(stages, FakeMemory(round((needs.step_bytes + left) / 0.9)))
    assert stages.gpu_source is not None
    assert not stages.is_resident
    assert filled.num_slots == 1
    assert 0 < filled.kept_bytes <= for_rows + 1


def test_a_limit_keeps_the_rest_of_the_device_free(stages):
    """With a hundred megabytes free, a third of one for the job."""
    kept_bytes = fill_device(stages, FakeMemory(10**8), limit_bytes=300_000).kept_bytes
    assert 0 < kept_bytes < 300_000


def test_a_device_without_room_is_refused(stages):
    """In one line, before anything is kept."""
    with pytest.raises(NoPlanFitsError, match=r"batches need \d+ bytes of the device's memory, 1000 are free"):
        fill_device(stages, FakeMemory(1000))
    assert stages.gpu_source is None


def test_a_step_that_does_not_fit_is_told_as_that(stages, monkeypatch):
    """Torch's own error has many lines and says nothing of batches; the model is as before."""
    before = copy.deepcopy(stages.model.state_dict())

    def train(_batch):
        next(stages.model.parameters()).data.zero_()
        raise torch.OutOfMemoryError("CUDA out of memory. Tried to allocate\n20.00 MiB")

    monkeypatch.setattr(stages, "train", train)
    with pytest.raises(NoPlanFitsError) as caught:
        fill_device(stages, FakeMemory(1000, peak_bytes=900))
    message = (
        "batches need more than 900 bytes of the device's memory, 1000 are free; make batch_size or fan_outs smaller"
    )
    assert str(caught.value) == message
    assert stages.gpu_source is None
    assert all(torch.equal(before[name], value) for name, value in stages.model.state_dict().items())


@pytest.mark.parametrize("fan_out", [-1, 1000])
def test_fan_outs_that_kernels_do_not_take_leave_the_batches_to_the_cpu(stages, fan_out):
    """All neighbours, or very many."""
    stages.loader.num_neighbors = [5, fan_out]
    filled = fill_device(stages, FakeMemory(10**8))
    assert (filled.num_slots, filled.kept_bytes) == (10, 0)
    assert stages.gpu_source is None


def test_repeated_seeds_leave_the_batches_to_the_cpu(stages):
    """The kernels would fail in whichever batch holds one twice; the CPU's take them, and an epoch is trained."""
    seeds = torch.arange(100).repeat(2)
    stages.loader = NeighborLoader(data(), [5, 3], seeds, batch_size=32, shuffle=True)
    filled = fill_device(stages, FakeMemory(10**8))
    assert (filled.num_slots, filled.kept_bytes) == (10, 0)
    assert stages.gpu_source is None
    assert len(run_epoch(stages, ONE_BY_ONE, len(stages.loader), 0, timeout_s=60).losses) == 7


@pytest.mark.gpu
@pytest.mark.skipif(not ON_CUDA, reason="needs a CUDA device")
def test_torchs_allocator_is_counted():
    """A block that lives and dies in between is the peak; what the allocator only holds is free."""
    memory = CudaMemory(torch.device("cuda", 0))
    memory.begin()
    block = torch.ones(2**24, device="cuda")
    free_bytes = memory.free_bytes()
    del block
    assert memory.peak_bytes() >= 2**26
    assert memory.free_bytes() >= free_bytes + 2**26
