"""A mini-batch job from its file to its record, through torchrun, with one worker and with two."""

from pathlib import Path

import pytest
import torch

from planner.job import Job, MiniBatchSpec, ModelSpec, NpzGraph, SbmGraph, TrainingSpec
from planner.minibatch.record import MiniBatchRun
from planner.minibatch.run import run_mini_batches
from profiles.errors import UserError
from runtime.reference import build_pyg_model


def job(**changes):
    """A graph whose labels can be learned, in seven batches."""
    graph = SbmGraph(source="sbm", num_nodes=700, average_degree=10, num_features=16, num_classes=4, homophily=0.9)
    fields = {
        "model": ModelSpec(kind="sage", hidden_channels=16),
        "training": TrainingSpec(epochs=4, learning_rate=0.02),
        "mini_batch": MiniBatchSpec(fan_outs=(5, 3), batch_size=60),
    }
    return Job(schema_version=1, name="tiny", graph=graph, **(fields | changes))


@pytest.mark.distributed
@pytest.mark.parametrize("num_workers", [1, 2])
def test_a_job_is_trained(tmp_path, num_workers):
    """Losses fall, labels are learned, every epoch has its plan, and the model loads into PyG's."""
    if 0 < torch.cuda.device_count() < num_workers:
        pytest.skip(f"{num_workers} workers need as many CUDA devices")
    heard = []
    record = run_mini_batches(job(), tmp_path, num_workers=num_workers, timeout_s=60, on_event=heard.append)
    assert record == MiniBatchRun.load(tmp_path / "mini_batch.json")
    assert record.num_workers == num_workers
    assert [event["epoch"] for event in heard if event["event"] == "epoch"] == [0, 1, 2, 3]
    assert [epoch.num_batches for epoch in record.epochs] == [7 if num_workers == 1 else 4] * 4
    assert record.epochs[-1].loss < 0.8 * record.epochs[0].loss
    assert record.accuracy["test"] > 0.5
    assert min(epoch.predicted_s for epoch in record.epochs) > 0
    net = build_pyg_model(record.job.model, 16, 4, seed=0)
    net.load_state_dict(torch.load(tmp_path / "model.pt", weights_only=True))


@pytest.mark.distributed
@pytest.mark.parametrize(
    ("changes", "num_workers", "message"),
    [
        ({"graph": NpzGraph(source="npz", path=Path("/gone.npz"))}, 1, r"^/gone\.npz: no such file"),
        ({"mini_batch": MiniBatchSpec(fan_outs=(5, 3), batch_size=1000)}, 2, "^2 workers for 1 batches; take fewer"),
    ],
)
def test_a_users_mistake_that_a_worker_finds_is_told_as_such(tmp_path, changes, num_workers, message):
    """A graph file that is not there, and fewer batches than workers: the worker's own line, and nothing around it."""
    if 0 < torch.cuda.device_count() < num_workers:
        pytest.skip(f"{num_workers} workers need as many CUDA devices")
    with pytest.raises(UserError, match=message):
        run_mini_batches(job().model_copy(update=changes), tmp_path, num_workers=num_workers, timeout_s=60)
