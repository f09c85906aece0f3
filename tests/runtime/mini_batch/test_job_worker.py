"""A mini-batch job from its file to its record, through torchrun, with one worker and with two."""

import pytest
import torch

from planner.job import Job, MiniBatchSpec, ModelSpec, SbmGraph, TrainingSpec
from planner.minibatch.record import MiniBatchRun
from planner.minibatch.run import run_mini_batches
from profiles.errors import RunFailedError
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
def test_a_failure_names_the_worker_and_the_cause(tmp_path):
    """A graph file that went away between planning and running."""
    from planner.job import NpzGraph

    gone = job().model_copy(update={"graph": NpzGraph(source="npz", path=tmp_path / "gone.npz")})
    with pytest.raises(RunFailedError, match=r"worker 0.*gone\.npz"):
        run_mini_batches(gone, tmp_path, timeout_s=60)


@pytest.mark.distributed
def test_fewer_batches_than_workers_are_refused(tmp_path):
    """In one line."""
    if torch.cuda.device_count() == 1:
        pytest.skip("2 workers need as many CUDA devices")
    one_batch = job(mini_batch=MiniBatchSpec(fan_outs=(5, 3), batch_size=1000))
    with pytest.raises(RunFailedError, match="2 workers for 1 batches"):
        run_mini_batches(one_batch, tmp_path, num_workers=2, timeout_s=60)
