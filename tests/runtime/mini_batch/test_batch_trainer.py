"""A mini-batch job from its file to its traces: measured, planned, run as any plan, with one worker and with two."""

import signal
import time
from functools import partial
from pathlib import Path
from threading import Thread
from types import SimpleNamespace

import pytest
import torch
from emulating import cluster, host, needs_emulation, remains

from gnnplan.planner import api
from gnnplan.planner.batch_spec import MiniBatchSpec
from gnnplan.planner.checkpoints import CheckpointOptions, checkpoints_in
from gnnplan.planner.graph_spec import NpzGraph, SbmGraph
from gnnplan.planner.job import Job
from gnnplan.planner.job_pins import PinnedDecisions
from gnnplan.planner.measured_batches import MeasuredBatches
from gnnplan.planner.model_spec import ModelSpec
from gnnplan.planner.models.pyg_models import build_pyg_model
from gnnplan.planner.plan import Plan
from gnnplan.planner.plan_files import save_plan
from gnnplan.planner.search import mini_batch, named
from gnnplan.planner.search.mini_batch import plan_mini_batches
from gnnplan.planner.trace import Trace
from gnnplan.planner.training_spec import TrainingSpec
from gnnplan.profiles.errors import RunFailedError, UserError
from gnnplan.runtime.mini_batch import trainer
from gnnplan.runtime.mini_batch.batch_worker import BatchWorker
from gnnplan.runtime.mini_batch.measure import measure_worker, thread_splits
from gnnplan.runtime.mini_batch.trainer import BatchTrainer
from gnnplan.runtime.reference import build_optimizer, loss_of
from gnnplan.runtime.worker import RunOptions, run_worker
from tests.planner.search.measured import measured, split, worker
from tests.runtime.partial.faulty import EARLIER_MODEL, Once, hosts_up, processes_of, send

TWO_DEVICES = pytest.mark.skipif(torch.cuda.device_count() == 1, reason="2 workers need as many CUDA devices")
ON_CPU = pytest.mark.skipif(torch.cuda.is_available(), reason="the stages are those of a CPU")
ENDLESS = TrainingSpec(epochs=1_000_000, learning_rate=1e-3)
AHEAD, IN_TURN = split(5, 500, 1, 20), split(500, 5, 1, 20)


def job(**changes):
    """A graph whose labels can be learned, in seven batches."""
    graph = SbmGraph(source="sbm", num_nodes=700, average_degree=10, num_features=16, num_classes=4, homophily=0.9)
    fields = {
        "model": ModelSpec(kind="sage", hidden_channels=16),
        "training": TrainingSpec(epochs=4, learning_rate=0.02),
        "mini_batch": MiniBatchSpec(fan_outs=(5, 3), batch_size=60),
    }
    return Job(schema_version=1, name="tiny", **({"graph": graph} | fields | changes))


def plan_of(asked, folder, monkeypatch, *splits, num_batches=7):
    """A plan by made-up stages, in its file."""
    facts = api.load_graph(asked.graph)
    of_graph = mini_batch.MeasuredBatches.model_fields["graph"].annotation.of(facts)
    workers = [worker(each, num_batches=num_batches, memory_bytes=2**36) for each in splits]
    found = measured(*workers).model_copy(update={"graph": of_graph})
    monkeypatch.setattr(mini_batch, "measure_batches", lambda *_, **__: found)
    plan, arrays = plan_mini_batches(asked, None)
    plan = named(plan, folder / "plan.json")
    save_plan(plan, arrays, folder / "plan.json")
    return plan


@pytest.fixture
def alone(monkeypatch):
    """This process as the only worker, with two threads."""
    variables = {"RANK": 0, "WORLD_SIZE": 1, "LOCAL_RANK": 0, "LOCAL_WORLD_SIZE": 1, "OMP_NUM_THREADS": 2}
    for key, value in variables.items():
        monkeypatch.setenv(key, str(value))
    num_threads = torch.get_num_threads()
    yield
    torch.set_num_threads(num_threads)


def check(trace, plan, folder, num_workers):
    """Losses fall, labels are learned, the trace has the plan's keys, and the model loads into PyG's."""
    assert trace == Trace.load(folder / "measured.json")
    assert (trace.num_workers, len(trace.losses)) == (num_workers, 4)
    assert trace.losses[-1] < 0.8 * trace.losses[0]
    assert trace.accuracy["test"] > 0.5
    comparison = api.compare(api.simulate(plan, 10), trace)
    assert (comparison.only_predicted, comparison.only_measured) == ((), ())
    net = build_pyg_model(plan.job.model, 16, 4, seed=0)
    net.load_state_dict(torch.load(folder / "model.pt", weights_only=True))


@pytest.mark.long
def test_a_job_is_measured_planned_and_trained(tmp_path, alone, monkeypatch):
    """By this process as the only worker."""
    measure_worker(job().save(tmp_path / "job.json"), tmp_path, timeout_s=60)
    found = MeasuredBatches.load(tmp_path / "stages.json")
    assert found.workers[0].num_batches == 7
    assert found.workers[0].held_bytes > 0
    tried = [(each.num_loaders, each.num_training_threads) for each in found.workers[0].splits]
    assert tried == thread_splits(2, on_cuda=found.device_kind == "cuda")
    monkeypatch.setattr(mini_batch, "measure_batches", lambda *_, **__: found)
    plan = api.plan(job(), None, tmp_path / "plan.json")
    run_worker(tmp_path / "plan.json", tmp_path, RunOptions(timeout_s=60))
    check(Trace.load(tmp_path / "measured.json"), plan, tmp_path, 1)


@ON_CPU
@pytest.mark.parametrize("route", [AHEAD, IN_TURN, split(30, 30, 1, 20)], ids=["ahead", "in turn", "both"])
def test_weights_are_those_of_a_plain_loop(tmp_path, alone, monkeypatch, route):
    """Over the same loader, in the order in which batches were trained."""
    plan = plan_of(job(), tmp_path, monkeypatch, route)
    made = BatchTrainer(plan, 0, torch.device("cpu"), 60)
    orders = []

    def recording(run, *arguments, **options):
        done = run(*arguments, **options)
        orders.append(done.order)
        return done

    monkeypatch.setattr(trainer, "run_epoch", partial(recording, trainer.run_epoch))
    losses = [made.train_epoch(epoch, traced=False).loss for epoch in range(3)]
    net = build_pyg_model(plan.job.model, 16, 4, plan.job.training.seed).train()
    optimizer, plain = build_optimizer(net.parameters(), plan.job.training), []
    for epoch, order in enumerate(orders):
        assert sorted(order) == list(range(7))
        plain.append([])
        for batch in (made.worker.loader.batch(epoch, index) for index in order):
            optimizer.zero_grad()
            logits = net(batch.x, batch.edge_index)[: batch.batch_size]
            loss = loss_of(logits, batch.y[: batch.batch_size], slice(None))
            loss.backward()
            optimizer.step()
            plain[-1].append(float(loss.detach()))
    assert losses == pytest.approx([sum(each) / 7 for each in plain], rel=1e-5)
    for name, value in net.state_dict().items():
        assert torch.allclose(value, made.net.state_dict()[name], rtol=1e-4, atol=1e-6)


def test_threads_are_shared_out_in_ways_that_differ():
    """One thread is one way; a GPU trains with one thread of the processor."""
    assert thread_splits(1, on_cuda=False) == [(1, 1)]
    assert thread_splits(2, on_cuda=False) == [(1, 2), (2, 2), (1, 1)]
    assert thread_splits(8, on_cuda=False) == [(4, 8), (8, 8), (1, 8), (4, 4)]
    assert thread_splits(8, on_cuda=True) == [(7, 1)]


@ON_CPU
def test_a_model_is_kept_though_it_cannot_be_evaluated(tmp_path, alone, monkeypatch):
    """It was trained: an evaluation that runs out of memory takes nothing away, and there is no trace."""

    def score(_trainer, _mask):
        raise MemoryError("no room for the test vertices")

    monkeypatch.setattr(BatchTrainer, "_score", score)
    plan_of(job(), tmp_path, monkeypatch, AHEAD)
    with pytest.raises(MemoryError, match="no room for the test vertices"):
        run_worker(tmp_path / "plan.json", tmp_path, RunOptions(timeout_s=60))
    build_pyg_model(job().model, 16, 4, seed=0).load_state_dict(torch.load(tmp_path / "model.pt", weights_only=True))
    assert not (tmp_path / "measured.json").exists()


@ON_CPU
def test_dropout_follows_the_seed_and_the_rank(tmp_path, alone, monkeypatch):
    """Whatever was drawn before; no two workers drop the same."""

    def first_drawn(rank, seed=0, drawn_before=0):
        dropping = job(model=ModelSpec(kind="sage", hidden_channels=16, dropout=0.5), training=TrainingSpec(seed=seed))
        plan = plan_of(dropping, tmp_path, monkeypatch, AHEAD, AHEAD, num_batches=3)
        monkeypatch.setattr(trainer, "BatchWorker", lambda *arguments: BatchWorker(*arguments[:3], 1, *arguments[4:]))
        torch.rand(drawn_before)
        BatchTrainer(plan, rank, torch.device("cpu"), 60)
        return torch.rand(4).tolist()

    with torch.random.fork_rng():
        drawn = first_drawn(0)
        assert first_drawn(0, drawn_before=7) == drawn
        assert first_drawn(1) != drawn
        assert first_drawn(0, seed=1) != drawn


@ON_CPU
def test_another_graph_than_the_plans_is_refused(tmp_path, alone, monkeypatch):
    """The workers load it, and look."""
    plan = plan_of(job(), tmp_path, monkeypatch, AHEAD)
    other = plan.graph.model_copy(update={"fingerprint": "another"})
    with pytest.raises(UserError, match="the plan was made for graph sbm"):
        BatchTrainer(plan.model_copy(update={"graph": other}), 0, torch.device("cpu"), 60)


def test_fewer_batches_than_workers_are_refused():
    """In one line, before anything is set up for training."""
    one_batch = job(mini_batch=MiniBatchSpec(fan_outs=(5, 3), batch_size=1000))
    with pytest.raises(UserError, match=r"^2 workers for 1 batches; take fewer workers or smaller batches$"):
        BatchWorker(one_batch, torch.device("cpu"), 0, 2, 60.0, 1, 2)


@ON_CPU
@pytest.mark.parametrize("optimizer", ["adam", "sgd"])
def test_stopped_it_goes_on_bit_for_bit(tmp_path, alone, monkeypatch, optimizer):
    """Where one thread makes the batches, whose order is then the same: dropout draws go on where they were, too."""
    asked = job(
        model=ModelSpec(kind="sage", hidden_channels=16, dropout=0.5),
        training=TrainingSpec(epochs=4, learning_rate=0.02, optimizer=optimizer),
    )
    plan_of(asked, tmp_path, monkeypatch, AHEAD)
    every = CheckpointOptions.of(1, 10)
    run_worker(tmp_path / "plan.json", tmp_path, RunOptions(timeout_s=60, checkpoints=every))
    whole, trace = torch.load(tmp_path / "model.pt", weights_only=True), Trace.load(tmp_path / "measured.json")
    kept = [found.epoch for found in checkpoints_in(tmp_path)[0]]
    assert kept
    assert set(kept) <= {1, 2, 3}
    (tmp_path / "model.pt").unlink()
    torch.manual_seed(99)
    run_worker(tmp_path / "plan.json", tmp_path, RunOptions(timeout_s=60, checkpoints=CheckpointOptions(resume=True)))
    assert Trace.load(tmp_path / "measured.json").losses == trace.losses
    found = torch.load(tmp_path / "model.pt", weights_only=True)
    assert all(torch.equal(weight, whole[name]) for name, weight in found.items())


@ON_CPU
@pytest.mark.parametrize("loss", [float("nan"), float("inf")])
def test_training_that_diverges_is_said(tmp_path, alone, monkeypatch, loss):
    """And in which epoch and batch, whichever came first; a trace holds no such loss."""
    made = BatchTrainer(plan_of(job(), tmp_path, monkeypatch, AHEAD), 0, torch.device("cpu"), 60)
    monkeypatch.setattr(trainer, "run_epoch", lambda *_, **__: SimpleNamespace(losses=[0.5, loss], order=[0, 5]))
    with pytest.raises(RunFailedError, match="epoch 3: the loss of batch 5 of worker 0 is NaN or infinite"):
        made.train_epoch(3, traced=False)


@pytest.mark.long
@pytest.mark.distributed
@TWO_DEVICES
def test_a_job_is_trained_by_two_workers(tmp_path):
    """Through torchrun, with four batches for one and three for the other; the first tells of its epochs."""
    two = job(pin=PinnedDecisions(num_workers=2))
    plan, heard = api.plan(two, None, tmp_path / "plan.json"), []
    assert [part.num_batches for part in plan.mini_batch.workers] == [4, 3]
    trace = api.run(tmp_path / "plan.json", tmp_path / "run", timeout_s=60, on_event=heard.append)
    assert [event["epoch"] for event in heard if event["event"] == "epoch"][-1] == 3
    check(trace, plan, tmp_path / "run", 2)


@pytest.mark.long
@pytest.mark.distributed
@needs_emulation
@ON_CPU
def test_a_job_is_trained_on_the_hosts_of_an_emulated_cluster(tmp_path, monkeypatch):
    """A worker on each, over its own link; nothing of the hosts stays."""
    hosts = cluster(host("h0", cpu_cores=0.8), host("h1", cpu_cores=0.8))
    with hosts_up(hosts, monkeypatch) as identity:
        plan = api.plan(job(), hosts, tmp_path / "plan.json")
        trace = api.run(tmp_path / "plan.json", tmp_path / "hosts", timeout_s=60)
    assert list(plan.placement.workers_by_host) == ["h0", "h1"]
    check(trace, plan, tmp_path / "hosts", 2)
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


@pytest.mark.long
@pytest.mark.distributed
@ON_CPU
@pytest.mark.parametrize(
    ("lose", "told"),
    [
        (kill, "^worker 1 was ended by SIGKILL"),
        (stop, "^a worker was lost: LostWorkerError: worker 1 does not answer: "),
    ],
)
def test_a_worker_that_is_lost_is_named(tmp_path, monkeypatch, lose, told):
    """Not the one that waits for it in a stage; neither lives on, and an earlier run's model stays."""
    folder = tmp_path / "run"
    folder.mkdir()
    (folder / "model.pt").write_bytes(EARLIER_MODEL)
    plan_of(job(training=ENDLESS), tmp_path, monkeypatch, AHEAD, AHEAD, num_batches=3)
    losing = Once(lambda: lose(folder), epoch=1)
    with pytest.raises(RunFailedError, match=told):
        api.run(tmp_path / "plan.json", folder, timeout_s=10, on_event=losing)
    assert losing.is_done
    until_s = time.monotonic() + 20
    while (left := processes_of(folder)) and time.monotonic() < until_s:
        time.sleep(0.05)
    assert not left
    assert (folder / "model.pt").read_bytes() == EARLIER_MODEL


@pytest.mark.long
@pytest.mark.distributed
def test_a_users_mistake_that_a_worker_finds_is_told_as_such(tmp_path):
    """A graph file that is not there: the worker's own line, nothing around it, and no file."""
    gone = job(graph=NpzGraph(source="npz", path=Path(tmp_path) / "gone.npz"))
    with pytest.raises(UserError, match=rf"^{tmp_path}/gone\.npz: no such file"):
        api.plan(gone, None, tmp_path / "plan.json")
    assert not list(tmp_path.iterdir())


def test_a_plan_is_recognised_by_its_version(tmp_path, monkeypatch):
    """It is a plan's, as any other."""
    plan_of(job(), tmp_path, monkeypatch, AHEAD)
    assert Plan.load(tmp_path / "plan.json").schema_version == Plan.VERSION
