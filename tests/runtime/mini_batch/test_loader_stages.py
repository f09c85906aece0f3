"""Whoever makes the batches, the model sees the same ones: loss curves are equal."""

import copy

import pytest
import torch
from torch_geometric.data import Data
from torch_geometric.nn.models import GraphSAGE

from gnnplan.planner.minibatch.dispatch import dispatch
from gnnplan.planner.minibatch.policy import Buffers
from gnnplan.profiles.errors import UserError
from gnnplan.runtime.mini_batch.executor import Renumbered, run_epoch
from gnnplan.runtime.mini_batch.loader_stages import LoaderStages
from gnnplan.runtime.mini_batch.profile import profile_stages
from gnnplan.runtime.sampling.loader import NeighborLoader


def data():
    """A random graph whose labels can be learned from the features."""
    generator = torch.Generator().manual_seed(0)
    y = torch.randint(0, 4, (400,), generator=generator)
    x = torch.nn.functional.one_hot(y, 4).float().repeat(1, 3) + torch.rand(400, 12, generator=generator)
    return Data(x=x, y=y, edge_index=torch.randint(0, 400, (2, 3000), generator=generator))


CPU = torch.device("cpu")


def stages_of(model, *, by_kernels=False, device=CPU):
    """Fresh stages around a copy of the model; `by_kernels` has the GPU's batches made by its own (interpreted)."""
    model = copy.deepcopy(model).to(device)
    loader = NeighborLoader(data(), [5, 3], batch_size=32, shuffle=True, seed=3, pin_memory=device.type == "cuda")
    source = None
    if by_kernels:
        from gnnplan.runtime.sampling.device import DeviceSource

        source = DeviceSource(loader.graph, device)
    optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
    return LoaderStages(loader, model, optimizer, device=device, gpu_source=source)


@pytest.fixture
def model():
    """A two-layer SAGE."""
    torch.manual_seed(0)
    return GraphSAGE(12, 16, 2, 4)


@pytest.mark.parametrize("num_cpu_threads", [1, 2])
def test_loss_curves_are_the_same_over_all_routes(model, num_cpu_threads):
    """Both buffers at work, then CPU only and GPU only with the same batches in the same order."""
    mixed = run_epoch(stages_of(model), Buffers(3, 2, 6), 13, 1, num_cpu_threads=num_cpu_threads, timeout_s=60)
    assert len(mixed.made_by_gpu) == 6
    for buffers in (Buffers(0, 1), Buffers(1, 1, 0)):
        again = run_epoch(Renumbered(stages_of(model), mixed.order.__getitem__), buffers, 13, 1, timeout_s=60)
        assert again.losses == pytest.approx(mixed.losses, rel=1e-5)


@pytest.mark.skipif(torch.cuda.is_available(), reason="the kernels are compiled here, for CUDA tensors only")
def test_loss_curves_are_the_same_with_batches_by_the_gpus_kernels(model):
    """CPU and GPU make batches in turn; the losses are those of the CPU alone."""
    mixed = run_epoch(stages_of(model, by_kernels=True), Buffers(3, 2, 6), 13, 1, timeout_s=60)
    assert len(mixed.made_by_gpu) == 6
    alone = run_epoch(Renumbered(stages_of(model), mixed.order.__getitem__), Buffers(0, 1), 13, 1, timeout_s=60)
    assert alone.losses == pytest.approx(mixed.losses, rel=1e-5)


def losses_of(model, x):
    """Of three steps on those features."""
    graph = data()
    graph.x = x
    stages = LoaderStages(
        NeighborLoader(graph, [5, 3], batch_size=32), model, torch.optim.Adam(model.parameters(), lr=0.01)
    )
    batches = [stages.cpu_batch(0, index) for index in range(3)]
    assert {batch.x.dtype for batch in batches} == {x.dtype}
    return [stages.train(stages.transfer(batch)) for batch in batches]


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float64])
def test_features_are_trained_in_the_models_type(model, dtype):
    """They are sampled and copied in their own; the losses are those of features that were converted before."""
    x = data().x.to(dtype)
    assert losses_of(copy.deepcopy(model), x) == pytest.approx(losses_of(model, x.float()), rel=1e-6)


class ByName(torch.nn.Embedding):
    """Logits of each vertex by its number, which its features are."""

    def forward(self, x, edge_index):
        return super().forward(x)


def test_features_that_are_numbers_of_things_stay_integers():
    """Such as those that an embedding looks up."""
    assert len(losses_of(ByName(400, 4), torch.arange(400))) == 3


def test_training_learns(model):
    """Planned, and executed epoch after epoch."""
    stages = stages_of(model)
    with stages.undone():
        profile = profile_stages(stages, 5, num_distinct=len(stages.loader))
    assert set(profile.variation) == {"cpu_batch", "transfer", "gpu_batch", "train"}
    buffers = dispatch(profile.times, 13).buffers
    assert buffers is not None
    done = [run_epoch(stages, buffers, 13, epoch, timeout_s=60) for epoch in range(6)]
    first, last = (sum(trained.losses) / 13 for trained in (done[0], done[-1]))
    assert last < 0.7 * first


def test_profiling_can_be_undone(model):
    """Weights and the optimizer's state are as before."""
    stages = stages_of(model)
    stages.train(stages.gpu_batch(0, 0))
    weights = copy.deepcopy(stages.model.state_dict())
    state = copy.deepcopy(stages.optimizer.state_dict())
    with stages.undone():
        stages.train(stages.gpu_batch(0, 1))
        assert any(not torch.equal(weights[name], value) for name, value in stages.model.state_dict().items())
    assert all(torch.equal(weights[name], value) for name, value in stages.model.state_dict().items())
    again = stages.optimizer.state_dict()["state"]
    assert all(torch.equal(state["state"][i]["exp_avg"], again[i]["exp_avg"]) for i in again)


def test_few_batches_are_profiled_again_and_again(model):
    """Two of them, eight times: none is asked for that does not exist."""
    stages, asked = stages_of(model), []
    make = stages.cpu_batch
    stages.cpu_batch = lambda epoch, index: asked.append(index) or make(epoch, index)
    with stages.undone():
        profile_stages(stages, 6, num_distinct=2)
    assert set(asked) == {0, 1}
    assert len(asked) >= 8


class FakeStream:
    """Counts how often it was waited for."""

    def __init__(self):
        self.waited = 0

    def synchronize(self):
        self.waited += 1


def test_rows_gathered_on_a_device_are_waited_for(model, monkeypatch):
    """By the stage that gathers them, on whatever stream it does; where all lie in host memory nothing is."""
    stages, stream, asked = stages_of(model), FakeStream(), []
    monkeypatch.setattr(torch.cuda, "current_stream", lambda device: asked.append(device) or stream)
    stages.cpu_batch(0, 0)
    assert not asked
    stages._gathers_on = {torch.device("cuda", 0)}
    stages.cpu_batch(0, 0)
    assert (asked, stream.waited) == ([torch.device("cuda", 0)], 1)


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
def test_features_on_the_device_are_there_before_they_are_trained_on(model):
    """With the graph in host memory and the default stream far behind: the losses are those of features there."""

    def losses(x):
        graph = data()
        graph.x = x
        mine = copy.deepcopy(model).cuda()
        loader = NeighborLoader(graph, [5, 3], batch_size=32, seed=3)
        stages = LoaderStages(loader, mine, torch.optim.Adam(mine.parameters(), lr=0.01), device=torch.device("cuda"))
        make = loader.batch

        def make_late(*arguments):
            torch.cuda._sleep(50_000_000)
            return make(*arguments)

        loader.batch = make_late
        return run_epoch(stages, Buffers(2, 2, 0), 13, 0, timeout_s=60).losses

    assert losses(data().x.cuda()) == pytest.approx(losses(data().x), rel=1e-4)


def test_a_loader_that_drops_its_only_batch_cannot_be_profiled(model):
    """One line, where there would be a division by the number of batches."""
    stages = stages_of(model)
    stages.loader = NeighborLoader(data(), [5, 3], range(20), batch_size=32, drop_last=True)
    with pytest.raises(UserError, match="no batch to train: the loader drops its last one"):
        profile_stages(stages, 6, num_distinct=len(stages.loader))
