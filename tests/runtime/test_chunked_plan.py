"""A plan in chunks is made where a job asks for one, predicted step by step, and runs as planned."""

import pytest
import torch

from gnnplan.planner import api
from gnnplan.planner.compare import compare
from gnnplan.planner.graph_spec import SbmGraph
from gnnplan.planner.job import Job
from gnnplan.planner.job_pins import PinnedDecisions
from gnnplan.planner.loaders import load_graph
from gnnplan.planner.model_spec import ModelSpec
from gnnplan.planner.models.pyg_models import build_pyg_model
from gnnplan.planner.plan_files import load_partition
from gnnplan.planner.program.sequential import SequentialExecutor
from gnnplan.planner.run import cycle_of
from gnnplan.planner.training_spec import TrainingSpec
from gnnplan.profiles.errors import UserError
from tests.runtime.test_pruned_plan import cluster_of
from tests.warm import runs

COUNT, STEPS = 5, 15
SPEC = SbmGraph(source="sbm", num_nodes=300, average_degree=8, num_classes=4, num_features=12, feature_signal=3.0)


def job_of(fidelity=f"stale({COUNT})", kind="gcn", **pin):
    model = ModelSpec(kind=kind, num_layers=3, hidden_channels=8, heads=2, dropout=0.3)
    training = TrainingSpec(epochs=STEPS, seed=2, optimizer="sgd", learning_rate=0.2)
    pin = PinnedDecisions(num_workers=2, partitioner="metis", balance="equal", **pin)
    return Job(graph=SPEC, model=model, training=training, fidelity=fidelity, pin=pin)


def decision_of(plan):
    """Of source chunks (None: they take no part)."""
    return next((each.choice().decision for each in plan.choices if each.technique == "source_chunks"), None)


@pytest.mark.long
@pytest.mark.parametrize("kind", ["gcn", "gat"])
def test_a_plan_in_chunks_runs_as_planned(tmp_path, kind):
    """Losses of the sequential executor; task keys, bytes and programs as predicted."""
    asked = job_of(kind=kind, decisions={"source_chunks": {"num_chunks": COUNT}})
    plan = api.plan(asked, cluster_of(tmp_path), tmp_path / "plan.json")
    assert decision_of(plan).num_chunks == COUNT
    assert plan.fidelity == f"stale({COUNT})"
    assert len(plan.cycle.order) == len(set(plan.cycle.order)) == COUNT
    predicted = api.simulate(plan)
    with runs():
        measured = api.run(tmp_path / "plan.json", tmp_path / "run", timeout_s=100)
    assert measured.sent_bytes == predicted.sent_bytes
    assert measured.reuse_sent_bytes == predicted.reuse_sent_bytes
    assert {(s.task, s.worker) for s in measured.spans} == {(s.task, s.worker) for s in predicted.spans}
    comparison = compare(predicted, measured)
    assert not comparison.only_predicted
    assert not comparison.only_measured
    assert list(measured.losses) == pytest.approx(losses_of(plan, tmp_path / "plan.json"), rel=1e-5)


def losses_of(plan, path):
    """By the sequential executor, in float64."""
    graph = load_graph(plan.job.graph)
    cycle = cycle_of(plan, graph, load_partition(plan, path))
    net = build_pyg_model(plan.job.model, graph.num_features, graph.num_classes, plan.job.training.seed)
    parameters = {n: p.detach().view(len(p) if p.dim() > 1 else 1, -1) for n, p in net.named_parameters()}
    ids, labels = cycle.arrays.ids, torch.from_numpy(graph.y)[:, None]
    inputs = {"x": torch.from_numpy(graph.x), "y": labels}
    of_each = {name: [value[each] for each in ids[cycle.values[name].space]] for name, value in inputs.items()}
    executor = SequentialExecutor(cycle, of_each, parameters)
    return [float(results["total_loss"][0]) for results in executor.train(STEPS)]


@pytest.mark.long
def test_it_is_taken_where_it_is_asked_for_alone(tmp_path):
    """The search never takes it by itself; asked for without a number it is the most that the fidelity allows."""
    cluster = cluster_of(tmp_path)
    assert decision_of(api.plan(job_of("stale"), cluster, tmp_path / "a.json")) is None
    asked = {"techniques": {"source_chunks": True}}
    for fidelity, count in (("stale(7)", 5), ("stale", 20), ("exact", 1)):
        plan = api.plan(job_of(fidelity, **asked), cluster, tmp_path / "b.json")
        assert decision_of(plan).num_chunks == count


@pytest.mark.long
@pytest.mark.parametrize(
    ("fidelity", "fields", "match"),
    [
        ("exact", {"num_chunks": 4}, r'write fidelity = "stale\(4\)"'),
        ("stale(4)", {"num_chunks": 4, "num_shuffles": 2}, r'write fidelity = "stale\(7\)"'),
        ("stale", {"num_chunks": 0}, "num_chunks: Input should be greater"),
        ("stale", {"chunks": 4}, "chunks: Extra inputs are not permitted"),
        ("stale", {"num_chunks": 100, "num_shuffles": 20}, "over 400 steps"),
    ],
)
def test_what_cannot_be_is_refused(tmp_path, fidelity, fields, match):
    """With the line to write."""
    with pytest.raises(UserError, match=match):
        api.plan(job_of(fidelity, decisions={"source_chunks": fields}), cluster_of(tmp_path), tmp_path / "plan.json")


def test_attention_has_no_correction(tmp_path):
    """It would be asked for in vain."""
    asked = job_of("stale", "gat", decisions={"source_chunks": {"num_chunks": 4, "correction": True}})
    with pytest.raises(UserError, match="attention has no correction"):
        api.plan(asked, cluster_of(tmp_path), tmp_path / "plan.json")


@pytest.mark.long
def test_a_refresh_of_rows_is_by_passes(tmp_path):
    """Rows that are kept for r epochs of the program are r passes old: that counts in steps."""
    asked = job_of("stale(12)", decisions={"source_chunks": {"num_chunks": 4}}, refresh_interval=3)
    plan = api.plan(asked, cluster_of(tmp_path), tmp_path / "plan.json")
    names = {each.technique for each in plan.choices}
    assert plan.fidelity in ("stale(12), stale(4)", "stale(4)")
    assert ("joint_cache" in names) == ("stale(12)" in plan.fidelity)
    lower = asked.model_copy(update={"fidelity": "stale(11)"})
    assert api.plan(lower, cluster_of(tmp_path), tmp_path / "b.json").fidelity == "stale(4)"
