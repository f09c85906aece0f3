"""A mini-batch job from its file to its record, through torchrun, with one worker and with two."""

import signal
import time
from threading import Thread
from types import SimpleNamespace

import pytest
import torch
from emulating import cluster, host, needs_emulation, remains

from gnnplan.planner.cli import main
from gnnplan.planner.job import Job, MiniBatchSpec, ModelSpec, NpzGraph, SbmGraph, TrainingSpec
from gnnplan.planner.minibatch.record import MiniBatchRun
from gnnplan.planner.minibatch.run import run_mini_batches
from gnnplan.profiles.errors import RunFailedError, UserError
from gnnplan.runtime.mini_batch import job_worker
from gnnplan.runtime.mini_batch.job_worker import _Worker, run_worker
from gnnplan.runtime.reference import build_pyg_model
from tests.runtime.partial.faulty import EARLIER_MODEL, Once, hosts_up, processes_of, send

TWO_DEVICES = pytest.mark.skipif(torch.cuda.device_count() == 1, reason="2 workers need as many CUDA devices")
ENDLESS = TrainingSpec(epochs=1_000_000, learning_rate=1e-3)


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


@pytest.fixture
def alone(monkeypatch):
    """This process as the only worker, with two threads."""
    for key, value in {"RANK": 0, "WORLD_SIZE": 1, "LOCAL_RANK": 0, "OMP_NUM_THREADS": 2}.items():
        monkeypatch.setenv(key, str(value))
    num_threads = torch.get_num_threads()
    yield
    torch.set_num_threads(num_threads)


def test_a_job_is_trained(tmp_path, alone):
    """By this process as the only worker."""
    run_worker(job().save(tmp_path / "job.json"), tmp_path, timeout_s=60)
    check(MiniBatchRun.load(tmp_path / "mini_batch.json"), tmp_path, 1, num_batches=7)


def test_a_model_is_kept_though_it_cannot_be_evaluated(tmp_path, alone, monkeypatch):
    """It was trained: an evaluation that runs out of memory takes nothing away, and there is no record."""

    def score(_worker, _mask):
        raise MemoryError("no room for the test vertices")

    monkeypatch.setattr(_Worker, "_score", score)
    with pytest.raises(MemoryError, match="no room for the test vertices"):
        run_worker(job().save(tmp_path / "job.json"), tmp_path, timeout_s=60)
    build_pyg_model(job().model, 16, 4, seed=0).load_state_dict(torch.load(tmp_path / "model.pt", weights_only=True))
    assert not (tmp_path / "mini_batch.json").exists()


def test_dropout_follows_the_seed_and_the_rank(tmp_path, alone, monkeypatch):
    """Whatever was drawn before, by profiling too; no two workers drop the same."""

    def first_drawn(rank, seed=0, num_profiled=2):
        drawn = []
        monkeypatch.setattr(job_worker, "_PROFILED_BATCHES", num_profiled)
        monkeypatch.setattr(_Worker, "_epochs", lambda _worker, _profile: drawn.append(torch.rand(4).tolist()) or [])
        training = TrainingSpec(seed=seed)
        dropping = job(model=ModelSpec(kind="sage", hidden_channels=16, dropout=0.5), training=training)
        _Worker(dropping, torch.device("cpu"), rank, 1, 60.0).run(tmp_path)
        return drawn

    with torch.random.fork_rng():
        drawn = first_drawn(1)
        assert first_drawn(1, num_profiled=7) == drawn
        assert first_drawn(2) != drawn
        assert first_drawn(1, seed=1) != drawn


@pytest.mark.distributed
@TWO_DEVICES
def test_a_job_is_trained_by_two_workers(tmp_path):
    """Through torchrun, with four batches for one and three for the other; the first tells of every epoch."""
    heard = []
    record = run_mini_batches(job(), tmp_path, num_workers=2, timeout_s=60, on_event=heard.append)
    assert [event["epoch"] for event in heard if event["event"] == "epoch"] == [0, 1, 2, 3]
    check(record, tmp_path, 2, num_batches=4)


@pytest.mark.distributed
@needs_emulation
@pytest.mark.skipif(torch.cuda.is_available(), reason="emulated hosts have CPU workers")
def test_a_job_is_trained_on_the_hosts_of_an_emulated_cluster(tmp_path, monkeypatch):
    """A worker on each, over its own link; nothing of the hosts stays."""
    hosts = cluster(host("h0", cpu_cores=0.8), host("h1", cpu_cores=0.8))
    with hosts_up(hosts, monkeypatch) as identity:
        record = run_mini_batches(job(), tmp_path / "hosts", cluster=hosts, timeout_s=60)
    check(record, tmp_path / "hosts", 2, num_batches=4)
    assert remains(identity) == []


def kill(folder):
    """Ends the second worker without a word."""
    send(folder, 1, signal.SIGKILL)


def stop(folder):
    """Stops the second worker until the first one has reported it: torchrun waits half a minute for one that is."""

    def go_on():
        until_s = time.monotonic() + 60
        while not (folder / "worker_0.error.json").exists() and time.monotonic() < until_s:
            time.sleep(0.05)
        send(folder, 1, signal.SIGCONT)

    send(folder, 1, signal.SIGSTOP)
    Thread(target=go_on, daemon=True).start()


@pytest.mark.distributed
@TWO_DEVICES
@pytest.mark.parametrize(
    ("lose", "told"),
    [
        (kill, "^worker 1 was ended by SIGKILL"),
        (stop, "^a worker was lost: LostWorkerError: worker 1 does not answer: "),
    ],
)
def test_a_worker_that_is_lost_is_named(tmp_path, lose, told):
    """Not the one that waits for it in a stage; neither lives on, and an earlier run's model stays."""
    (tmp_path / "model.pt").write_bytes(EARLIER_MODEL)
    losing = Once(lambda: lose(tmp_path), epoch=1)
    with pytest.raises(RunFailedError, match=told):
        run_mini_batches(job(training=ENDLESS), tmp_path, num_workers=2, timeout_s=10, on_event=losing)
    assert losing.is_done
    until_s = time.monotonic() + 20
    while (left := processes_of(tmp_path)) and time.monotonic() < until_s:
        time.sleep(0.05)
    assert not left
    assert (tmp_path / "model.pt").read_bytes() == EARLIER_MODEL


@pytest.mark.distributed
def test_a_users_mistake_that_a_worker_finds_is_told_as_such(tmp_path):
    """A graph file that is not there: the worker's own line, nothing around it, and no file."""
    gone = job(graph=NpzGraph(source="npz", path=tmp_path / "gone.npz"))
    with pytest.raises(UserError, match=rf"^{tmp_path}/gone\.npz: no such file"):
        run_mini_batches(gone, tmp_path / "out", timeout_s=60)
    assert not list((tmp_path / "out").iterdir())


@pytest.mark.distributed
def test_a_job_file_survives_a_run_in_its_own_folder(tmp_path, capsys):
    """Also one that fails over what the user gave it."""
    path = job(graph=NpzGraph(source="npz", path=tmp_path / "gone.npz")).save(tmp_path / "out" / "job.json")
    before = path.read_bytes()
    assert main(["minibatch", str(path), "-o", str(tmp_path / "out")]) == 2
    assert "gone.npz: no such file" in capsys.readouterr().err
    assert path.read_bytes() == before
    assert [each.name for each in (tmp_path / "out").iterdir()] == ["job.json"]


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
