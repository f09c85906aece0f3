"""Plan, simulate, run on two real workers, and hold each against the other and against PyG."""

import shutil

import numpy as np
import pytest
import torch

from gnnplan.planner import api, run
from gnnplan.planner.cluster import Cluster, DeviceSpec, HostSpec
from gnnplan.planner.graph_spec import SbmGraph
from gnnplan.planner.job import Job
from gnnplan.planner.job_pins import PinnedDecisions
from gnnplan.planner.loaders import load_graph
from gnnplan.planner.model_spec import ModelSpec
from gnnplan.planner.models.pyg_models import build_pyg_model
from gnnplan.planner.plan import Plan
from gnnplan.planner.plan_files import load_partition
from gnnplan.planner.program_shard import ProgramShard
from gnnplan.planner.run import write_shards
from gnnplan.planner.training_spec import TrainingSpec
from gnnplan.profiles.catalog import catalog_profile
from gnnplan.profiles.errors import UserError
from gnnplan.profiles.machine import Link
from gnnplan.runtime.reference import graph_tensors, pyg_forward
from tests import warm

pytestmark = pytest.mark.distributed

GRAPH = SbmGraph(
    source="sbm", num_nodes=200, average_degree=8, num_classes=4, num_features=12, feature_signal=3.0, seed=1
)
EPOCHS = 5
KINDS = ("gcn", "sage", "gat", "gin", "tagcn")


@pytest.fixture(scope="module")
def cluster(tmp_path_factory):
    """Two workers on one host, with a published GPU's figures and the device kind of a CPU."""
    path = tmp_path_factory.mktemp("profile") / "here.json"
    catalog_profile("rtx-3090").model_copy(update={"device_kind": "cpu", "num_threads": 1}).save(path)
    host = HostSpec(name="here", devices=(DeviceSpec(profile=path, count=2),))
    return Cluster(schema_version=1, hosts=(host,))


def job_of(kind, **changes):
    return Job(
        schema_version=1,
        graph=changes.pop("graph", GRAPH),
        model=ModelSpec(kind=kind, num_layers=2, hidden_channels=8, heads=2, num_hops=2, **changes),
        training=TrainingSpec(epochs=EPOCHS, seed=2),
        pin=PinnedDecisions(
            dependencies="communicate", num_workers=2, op_order="multiply_first", precompute=False, balance="speed"
        ),
    )


@pytest.fixture(scope="module", params=KINDS)
def trained(request, cluster, tmp_path_factory):
    """Plan, prediction, measurement and the run's folder of one model; the first one's workers come by torchrun."""
    folder = tmp_path_factory.mktemp(request.param)
    job = job_of(request.param)
    plan = api.plan(job, cluster, folder / "plan.json")
    losses = []
    with warm.runs(warm=request.param != KINDS[0]):
        measured = api.run(folder / "plan.json", folder / "run", timeout_s=60, on_event=losses.append)
    return plan, api.simulate(plan), measured, folder / "run", losses


@pytest.mark.long
def test_measured_tasks_are_the_predicted_ones(trained):
    """Every worker executed in every traced epoch exactly the task keys that were simulated for it, once each."""
    _, predicted, measured, _, _ = trained
    for worker in (0, 1):
        keys = sorted(span.task for span in predicted.spans if span.worker == worker)
        assert len(keys) == len(set(keys)) > 10
        for epoch in {span.epoch for span in measured.spans}:
            done = sorted(s.task for s in measured.spans if s.worker == worker and s.epoch == epoch)
            assert done == keys


def test_categories_are_the_predicted_ones(trained):
    """A task computes, communicates or keeps the host busy in both traces alike."""
    _, predicted, measured, _, _ = trained
    assert {(s.task, s.category) for s in predicted.spans} == {(s.task, s.category) for s in measured.spans}


def test_sent_bytes_are_the_predicted_ones(trained):
    """Each worker sent the predicted number of bytes in an epoch, to the byte."""
    plan, predicted, measured, _, _ = trained
    assert measured.sent_bytes == predicted.sent_bytes
    assert measured.sent_bytes == tuple(worker.sent_bytes for worker in plan.prediction.workers)
    assert min(measured.sent_bytes) > 0


def test_losses_fall_and_are_told_while_it_trains(trained):
    """The loss of the last epoch is below the first; the events tell true losses, the last one's for certain."""
    _, _, measured, _, events = trained
    assert len(measured.losses) == EPOCHS
    assert measured.losses[-1] < measured.losses[0]
    assert [event["loss"] for event in events] == [measured.losses[event["epoch"]] for event in events]
    told = [event["epoch"] for event in events]
    assert told == sorted(set(told))
    assert told[-1] == EPOCHS - 1


def test_trace_belongs_to_the_plan(trained):
    """Both traces carry the plan's fingerprint, say which of the two they are, and hold real figures."""
    plan, predicted, measured, _, _ = trained
    assert predicted.plan_fingerprint == measured.plan_fingerprint == plan.fingerprint()
    assert (predicted.origin, measured.origin) == ("predicted", "measured")
    assert len(measured.peak_bytes) == measured.num_workers == 2
    assert min(measured.peak_bytes) > 2**26
    assert all(0 <= span.start_s <= span.end_s for span in measured.spans)


def test_model_loads_into_pyg(trained):
    """model.pt loads without pickled code into the PyG model, which scores the same in one process."""
    plan, _, measured, folder, _ = trained
    graph = load_graph(plan.job.graph)
    net = build_pyg_model(plan.job.model, graph.num_features, graph.num_classes, seed=99)
    net.load_state_dict(torch.load(folder / "model.pt", weights_only=True))
    x, edge_index, y = graph_tensors(graph)
    with torch.no_grad():
        right = (pyg_forward(net, x, edge_index).argmax(1) == y).double()
    for name in ("train", "val", "test"):
        mask = torch.from_numpy(getattr(graph, f"{name}_mask"))
        assert measured.accuracy[name] == pytest.approx(float(right[mask].mean()))


@pytest.mark.long
def test_attention_overlaps_its_exchanges_where_that_is_pinned(cluster, tmp_path):
    """Local scores are made beside the exchange, and every loss is the same."""
    traces = []
    for overlap in (False, True):
        job = job_of("gat")
        job = job.model_copy(
            update={
                "pin": job.pin.model_copy(update={"overlap": overlap, "partitioner": "kaminpar", "balance": "speed"})
            }
        )
        plan = api.plan(job, cluster, tmp_path / "plan.json")
        assert ("overlap" in {chosen.technique for chosen in plan.choices}) == overlap
        with warm.runs():
            traces.append(api.run(tmp_path / "plan.json", tmp_path / f"run_{overlap}", timeout_s=60))
        assert {span.task for span in traces[-1].spans} == {span.task for span in api.simulate(plan).spans}
    assert traces[0].losses == traces[1].losses


@pytest.fixture(scope="module")
def stale(cluster, tmp_path_factory):
    """A plan that refreshes every third epoch; its two traces. (`benchmarks programs` keeps a part of the rows.)"""
    folder = tmp_path_factory.mktemp("stale")
    slow = cluster.model_copy(update={"device_link": Link(bytes_per_s=1e6)})
    pin = PinnedDecisions(dependencies="communicate", num_workers=2, refresh_interval=3, balance="speed")
    job = job_of("gcn").model_copy(update={"fidelity": "stale", "pin": pin})
    plan = api.plan(job, slow, folder / "plan.json")
    with warm.runs():
        measured = api.run(folder / "plan.json", folder / "run", timeout_s=60)
    return plan, api.simulate(plan), measured


@pytest.mark.long
def test_a_stale_plan_runs_as_simulated(stale):
    """Tasks of refreshing and of reusing epochs, and the bytes of both kinds, are the predicted ones."""
    plan, predicted, measured = stale
    assert plan.fidelity == "stale(3)"
    assert measured.reuse_sent_bytes == (0, 0)
    assert measured.sent_bytes == predicted.sent_bytes
    assert measured.reuse_sent_bytes == predicted.reuse_sent_bytes
    assert all(ours < theirs for ours, theirs in zip(measured.reuse_sent_bytes, measured.sent_bytes, strict=True))
    assert {span.epoch % 3 for span in measured.spans} == {0, 1, 2}
    for worker in (0, 1):
        for epoch in {span.epoch for span in measured.spans}:
            keys, done = (
                sorted(s.task for s in trace.spans if (s.worker, s.epoch) == (worker, which))
                for trace, which in ((predicted, int(epoch % 3 > 0)), (measured, epoch))
            )
            assert done == keys
    comparison = api.compare(predicted, measured)
    assert comparison.only_predicted == comparison.only_measured == ()
    assert comparison.figure("sent while reusing, worker 1").error in (0.0, None)


@pytest.fixture(scope="module")
def planned(cluster, tmp_path_factory):
    """A plan file of a GCN that nobody has run yet."""
    path = tmp_path_factory.mktemp("planned") / "plan.json"
    api.plan(job_of("gcn"), cluster, path)
    return path


def copy_of(planned, tmp_path):
    for file in planned.parent.iterdir():
        shutil.copy(file, tmp_path)
    return tmp_path / planned.name


def test_another_graph_is_refused(planned, tmp_path):
    """A plan run against a graph of another seed is a UserError that tells both fingerprints."""
    other = load_graph(GRAPH.model_copy(update={"seed": 2}))
    with pytest.raises(UserError, match=rf"was made for graph sbm .*is {other.fingerprint}; make a new plan"):
        api.run(planned, tmp_path / "run", graph=other)
    assert not (tmp_path / "run" / "shards").exists()


def test_job_changed_in_the_plan_file_is_refused(planned, tmp_path):
    """Editing the graph's seed inside the plan file is noticed before any worker starts."""
    path = copy_of(planned, tmp_path)
    text = path.read_text()
    edited = text.replace('"seed": 1', '"seed": 3')
    assert edited != text
    path.write_text(edited)
    with pytest.raises(UserError, match="make a new plan"):
        api.run(path, tmp_path / "run")


def test_another_partition_is_refused(planned, tmp_path):
    """A partition file that is not the plan's, or not a partition at all, is a UserError."""
    path = copy_of(planned, tmp_path)
    file = tmp_path / "plan.partition.npz"
    np.savez(file, part=np.zeros(GRAPH.num_nodes, np.int32))
    with pytest.raises(UserError, match="not the partition this plan was made with"):
        api.run(path, tmp_path / "run")
    file.write_bytes(file.read_bytes()[:-40])
    with pytest.raises(UserError, match="not a partition file"):
        api.run(path, tmp_path / "run")
    file.unlink()
    with pytest.raises(UserError, match="partition is missing"):
        api.run(path, tmp_path / "run")


def test_shard_that_was_cut_short_is_named(planned, tmp_path):
    """A shard file that misses its end, is empty or is no shard at all is an error with its path."""
    plan = Plan.load(planned)
    write_shards(plan, load_graph(GRAPH), load_partition(plan, planned), tmp_path)
    file = tmp_path / "worker_1.npz"
    assert "y" in ProgramShard.load(file).inputs
    data = file.read_bytes()
    for damaged in (data[:-60], data[:200], b"not a shard"):
        file.write_bytes(damaged)
        with pytest.raises(UserError, match=r"worker_1\.npz: not a shard"):
            ProgramShard.load(file)


@pytest.mark.long
def test_worker_that_fails_amid_training_is_named(planned, tmp_path, monkeypatch):
    """A worker whose share has a row that it does not own is named before it trains."""
    write = run.write_shards

    def write_and_change(plan, graph, part, folder):
        write(plan, graph, part, folder)
        file = folder / "worker_1.npz"
        shard = ProgramShard.load(file)
        next(rows for name, (rows,) in shard.arrays.rows.items() if name.startswith("pack"))[0] = 10**6
        shard.save(file)

    monkeypatch.setattr(run, "write_shards", write_and_change)
    with pytest.raises(UserError, match=r"worker 1.*rows .* are not the plan's"):
        api.run(planned, tmp_path / "run", timeout_s=30)


def test_one_worker_trains_alone(cluster, tmp_path):
    """Without a process group: trained, evaluated and compared by the same task keys."""
    pin = PinnedDecisions(num_workers=1)
    job = job_of("gcn").model_copy(update={"pin": pin})
    plan = api.plan(job, cluster, tmp_path / "plan.json")
    with warm.runs():
        measured = api.run(tmp_path / "plan.json", tmp_path / "run", timeout_s=60)
    assert plan.cycle is not None
    assert measured.accuracy
    assert {span.task for span in measured.spans} == {span.task for span in api.simulate(plan).spans}
