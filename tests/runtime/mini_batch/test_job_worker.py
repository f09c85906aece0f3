"""A mini-batch job from its file to its record, through torchrun, with one worker and with two."""

from types import SimpleNamespace

import pytest
import torch

from planner.job import Job, MiniBatchSpec, ModelSpec, NpzGraph, SbmGraph, TrainingSpec
from planner.minibatch.record import MiniBatchRun
from planner.minibatch.run import run_mini_batches
from profiles.errors import RunFailedError, UserError
from runtime.mini_batch.job_worker import _Worker, run_worker
from runtime.reference import build_pyg_model


def job(**changes):
    """A graph whose labels can be learned, in seven batches."""
    graph = SbmGraph(source="sbm", num_nodes=700, average_degree=10, num_features=16, num_classes=4, homophily=0.9)
    fields = {
        "model": ModelSpec(kind="sage", hidden_channels=16),
        "training": TrainingSpec(epochs=4, learning_rate=0.02),
        "mini_batch": MiniBatchSpec(fan_outs=(5, 3), batch_size=60),
    }
    return Job(schema_version=1, name="tiny", **({"graph": graph} | fields | changes))


def check(record, folder, num_workers, num_batches):
    """Losses fall, labels are learned, every epoch has its plan, and the model loads into PyG's."""
    assert record == MiniBatchRun.load(folder / "mini_batch.json")
    assert record.num_workers == num_workers
    assert [epoch.num_batches for epoch in record.epochs] == [num_batches] * 4
    assert record.epochs[-1].loss < 0.8 * record.epochs[0].loss
    assert record.accuracy["test"] > 0.5
    assert min(epoch.predicted_s for epoch in record.epochs) > 0
    net = build_pyg_model(record.job.model, 16, 4, seed=0)
    net.load_state_dict(torch.load(folder / "model.pt", weights_only=True))


def test_a_job_is_trained(tmp_path, monkeypatch):
    """By this process as the only worker."""
    for key, value in {"RANK": 0, "WORLD_SIZE": 1, "LOCAL_RANK": 0, "OMP_NUM_THREADS": 2}.items():
        monkeypatch.setenv(key, str(value))
    num_threads = torch.get_num_threads()
    try:
        run_worker(job().save(tmp_path / "job.json"), tmp_path, timeout_s=60)
    finally:
        torch.set_num_threads(num_threads)
    check(MiniBatchRun.load(tmp_path / "mini_batch.json"), tmp_path, 1, num_batches=7)


@pytest.mark.distributed
@pytest.mark.skipif(torch.cuda.device_count() == 1, reason="2 workers need as many CUDA devices")
def test_a_job_is_trained_by_two_workers(tmp_path):
    """Through torchrun, with four batches for one and three for the other; the first tells of every epoch."""
    heard = []
    record = run_mini_batches(job(), tmp_path, num_workers=2, timeout_s=60, on_event=heard.append)
    assert [event["epoch"] for event in heard if event["event"] == "epoch"] == [0, 1, 2, 3]
    check(record, tmp_path, 2, num_batches=4)


@pytest.mark.distributed
def test_a_users_mistake_that_a_worker_finds_is_told_as_such(tmp_path):
    """A graph file that is not there: the worker's own line, nothing around it, and no file."""
    gone = job(graph=NpzGraph(source="npz", path=tmp_path / "gone.npz"))
    with pytest.raises(UserError, match=rf"^{tmp_path}/gone\.npz: no such file"):
        run_mini_batches(gone, tmp_path / "out", timeout_s=60)
    assert not list((tmp_path / "out").iterdir())


def test_fewer_batches_than_workers_are_refused():
    """In one line, before anything is set up for training."""
    one_batch = job(mini_batch=MiniBatchSpec(fan_outs=(5, 3), batch_size=1000))
    num_threads = torch.get_num_threads()
    try:
        with pytest.raises(UserError, match=r"^2 workers for 1 batches; take fewer workers or smaller batches$"):
            _Worker(one_batch, torch.device("cpu"), 0, 2, 60.0)
    finally:
        torch.set_num_threads(num_threads)


@pytest.mark.parametrize("loss", [float("nan"), float("inf")])
def test_training_that_diverges_is_said(loss):
    """And in which epoch; a record holds no such loss."""
    trained = SimpleNamespace(plan=None, epoch=SimpleNamespace(losses=[0.5, loss]))
    with pytest.raises(RunFailedError, match=rf"the loss of epoch 3 is {loss}: training diverges"):
        _Worker._record(None, 3, trained)
