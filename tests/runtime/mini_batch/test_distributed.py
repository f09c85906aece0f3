"""Several workers train every batch once between them and end with the same weights."""

import json
import weakref
from contextlib import nullcontext
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch_geometric.nn.models import GraphSAGE

from gnnplan.profiles.agents import HostGroup
from gnnplan.profiles.errors import RunFailedError
from gnnplan.runtime.mini_batch import distributed
from gnnplan.runtime.mini_batch.distributed import emptying_frames, joined, num_batches_of
from tests.runtime.mini_batch.test_loader_stages import stages_of
from tests.warm import launch

WORKER = """
import json, os, sys
from datetime import timedelta
import torch, torch.distributed as dist
from gnnplan.planner.minibatch.policy import Buffers
from gnnplan.runtime.mini_batch.distributed import in_step, joined, num_batches_of, split
from gnnplan.runtime.mini_batch.executor import run_epoch
from gnnplan.runtime.mini_batch.loader_stages import LoaderStages
from gnnplan.runtime.over_workers import mean
from tests.runtime.mini_batch.test_loader_stages import stages_of
from torch_geometric.nn.models import GraphSAGE

def train(rank, size):
    torch.manual_seed(0)
    stages = stages_of(GraphSAGE(12, 16, 2, 4))
    stages.model = in_step(stages.model)
    trained = []
    for epoch in range(2):
        with joined(stages.model, stages.optimizer):
            mine = num_batches_of(rank, size, len(stages.loader))
            done = run_epoch(split(stages, rank, size), Buffers(2, 2), mine, epoch, timeout_s=60)
        trained.append([rank + i * size for i in done.order])
    dist.barrier()
    parameters, states = list(stages.model.parameters()), stages.optimizer.state
    weights = [p.detach().flatten().tolist() for p in parameters]
    return trained, weights, [float(value.double().sum()) for p in parameters for value in states[p].values()]

rank, folder, sizes = int(os.environ["RANK"]), sys.argv[1], [int(size) for size in sys.argv[2:]]
torch.set_num_threads(1)
for size in sizes:
    if rank >= size:
        continue
    store = f"file://{folder}/store_{size}"
    dist.init_process_group("gloo", init_method=store, rank=rank, world_size=size, timeout=timedelta(seconds=60))
    result = [*train(rank, size), mean([float(rank)] * (rank + 1))]
    dist.destroy_process_group()
    with open(f"{folder}/{rank}_of_{size}.json", "w") as file:
        json.dump(result, file)
"""
SIZES = (2, 3)


@given(st.integers(1, 9), st.integers(0, 50))
def test_batches_are_split_without_overlap(size, num_batches):
    """Every batch has one worker, and no worker two more than another."""
    counts = [num_batches_of(rank, size, num_batches) for rank in range(size)]
    assert sum(counts) == num_batches
    assert max(counts) - min(counts) <= 1


class Held:
    """Something that frames hold."""


def test_frames_that_an_error_went_through_hold_nothing():
    """Nor do those of the error that it was raised from, while it is still on its way."""
    held = []

    def fail():
        mine = Held()
        held.append(weakref.ref(mine))
        raise ValueError("no such vertex")

    def fail_again():
        mine = Held()
        held.append(weakref.ref(mine))
        try:
            fail()
        except ValueError as error:
            raise RunFailedError("batch 3 failed") from error

    with pytest.raises(RunFailedError, match="batch 3") as caught, emptying_frames():
        fail_again()
    assert [each() for each in held] == [None, None]
    assert isinstance(caught.value.__cause__, ValueError)


@pytest.mark.parametrize("kind", ["cpu", "cuda"])
def test_an_epochs_last_broadcast_is_waited_for(monkeypatch, kind):
    """The next epoch trains on another stream than the weights came on; a CPU has none."""
    device, done = torch.device(kind, 0), []
    model = SimpleNamespace(parameters=lambda: iter([SimpleNamespace(device=device)]))
    monkeypatch.setattr(distributed, "Join", lambda *_, **__: nullcontext())
    monkeypatch.setattr(distributed, "_take_state_of_first", lambda _optimizer, where: done.append(("state", where)))
    monkeypatch.setattr(torch.cuda, "synchronize", lambda where: done.append(("waited", where)))
    with joined(model, SimpleNamespace()):
        done.append("trained")
    assert done == ["trained", ("state", device), *([("waited", device)] if kind == "cuda" else [])]


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Receives what every worker of two, and then of three, has to say; the processes are the same."""
    made = tmp_path_factory.mktemp("workers")
    (made / "batch_worker.py").write_text(WORKER)
    launch(
        "batch_worker",
        [str(made), *map(str, SIZES)],
        hosts=[HostGroup(max(SIZES))],
        folder=made,
        environment={"PYTHONPATH": str(made)},
    )
    return made


@pytest.mark.long
@pytest.mark.distributed
@pytest.mark.parametrize("size", SIZES)
def test_workers_with_uneven_counts_end_with_the_same_weights(size, folder):
    """Thirteen batches do not divide by two or three: the one with fewer keeps up."""
    results = [json.loads((folder / f"{rank}_of_{size}.json").read_text()) for rank in range(size)]
    for epoch in range(2):
        assert sorted(index for trained, *_ in results for index in trained[epoch]) == list(range(13))
    for _, *ends in results[1:]:
        assert ends == results[0][1:]
    expected = trained_alone([trained for trained, *_ in results])
    for weights, parameter in zip(results[0][1], expected, strict=True):
        np.testing.assert_allclose(weights, parameter, rtol=1e-4, atol=1e-6)


@pytest.mark.long
@pytest.mark.distributed
@pytest.mark.parametrize("size", SIZES)
def test_an_epochs_loss_is_of_all_workers_batches(size, folder):
    """However many each of them has."""
    (*_, mean) = json.loads((folder / f"0_of_{size}.json").read_text())
    assert mean == pytest.approx(np.mean([rank for rank in range(size) for _ in range(rank + 1)]))


def trained_alone(orders):
    """Weights of one process that steps on the mean gradient over the workers; who has no batch adds nothing."""
    torch.manual_seed(0)
    stages = stages_of(GraphSAGE(12, 16, 2, 4))
    parameters = list(stages.model.parameters())
    for epoch in range(2):
        for step in range(max(len(order[epoch]) for order in orders)):
            stages.optimizer.zero_grad()
            for order in (order[epoch] for order in orders if step < len(order[epoch])):
                batch = stages.cpu_batch(epoch, order[step])
                logits = stages.model(batch.x, batch.edge_index)[: batch.batch_size]
                (stages.loss(logits, batch.y[: batch.batch_size]) / len(orders)).backward()
            stages.optimizer.step()
    return [parameter.detach().flatten().numpy() for parameter in parameters]
