"""A link prediction from its job to embeddings: planned, predicted, run on two workers, and inferred."""

import numpy as np
import pytest
import torch
from scipy import sparse as sp

import gnnplan
from gnnplan.planner import api
from gnnplan.planner.job import Job
from gnnplan.planner.loaders import load_graph
from gnnplan.profiles.errors import UserError
from gnnplan.runtime.reference import graph_tensors, pyg_forward, train_reference
from tests import warm
from tests.runtime.checkpoint.jobs import two_workers

EPOCHS = 5
GRAPH = {"source": "sbm", "num_nodes": 300, "average_degree": 8, "num_classes": 4, "num_features": 12, "seed": 1}
LINK = {"width": 6, "val_fraction": 0.1, "test_fraction": 0.2, "num_ranked": 20}
PINS = {
    "rows": {"dependencies": "communicate", "techniques": {"halo_exchange": True}},
    "slices": {"techniques": {"feature_slices": True}},
}


def job_of(**changes):
    raw = {
        "graph": GRAPH | {"link": LINK},
        "model": {"kind": "sage", "num_layers": 2, "hidden_channels": 8},
        "training": {"epochs": EPOCHS, "learning_rate": 0.02},
        "pin": {"num_workers": 2},
        **changes,
    }
    return Job.parse({"schema_version": 1, **raw}, where="job")


@pytest.mark.long
@pytest.mark.distributed
@pytest.mark.parametrize("layout", PINS)
def test_trains_as_pyg_does(layout, tmp_path):
    """Losses, weights, bytes and tasks; the embeddings are those of the trained model."""
    job = job_of(pin={"num_workers": 2, **PINS[layout]})
    plan = api.plan(job, two_workers(tmp_path), tmp_path / "plan.json")
    assert plan.graph.task_words.endswith("pairs to train on, embeddings of 6")
    with warm.runs():
        measured = api.run(plan, tmp_path / "run", timeout_s=60)
        inferred = gnnplan.infer(plan, tmp_path / "run", tmp_path / "embeddings.npy", timeout_s=60)
    graph = load_graph(job.graph)
    net, losses = train_reference(graph, job.model, job.training)
    assert measured.losses == pytest.approx(losses, rel=1e-5)
    predicted = api.simulate(plan)
    assert {span.task for span in measured.spans} == {span.task for span in predicted.spans}
    assert measured.sent_bytes == predicted.sent_bytes
    assert measured.metric == "mrr"
    assert all(0.05 < measured.accuracy[split] < 1 for split in ("train", "val", "test"))
    x, edge_index, _ = graph_tensors(graph)
    with torch.no_grad():
        want = pyg_forward(net, x, edge_index).numpy()
    np.testing.assert_allclose(np.load(inferred.path), want, rtol=1e-3, atol=1e-4)


def test_a_graph_in_memory_gets_its_pairs(tmp_path):
    """Of a `Graph`, and of the splits that the job asks for."""
    graph = load_graph(Job.parse({"schema_version": 1, "graph": GRAPH}, where="job").graph)
    job = job_of(graph={"source": "memory", "link": LINK})
    plan = api.plan(job, two_workers(tmp_path), tmp_path / "plan.json", graph=graph)
    assert plan.graph.fingerprint == load_graph(job_of().graph).fingerprint
    assert graph.pairs is None


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"mini_batch": {"fan_outs": [3, 3]}}, "a link prediction has neither mini-batches"),
        ({"pin": {"partial_reduce": {"max_staleness": 0}}}, "a link prediction has neither mini-batches"),
        ({"pin": {"prune": "rapa"}, "fidelity": "approximate"}, "a link prediction needs every pair"),
        ({"graph": {"source": "statistics", "path": "x.json", "link": {}}}, "statistics know no pairs"),
        ({"graph": GRAPH | {"link": {"num_ranked": 0}}}, "num_ranked"),
    ],
)
def test_what_has_no_pairs_is_refused_in_the_job(changes, words):
    """In one line."""
    with pytest.raises(UserError, match=words):
        job_of(**changes)


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        (
            {"training": {"metric": "accuracy"}},
            "'accuracy' does not go with a link prediction, which has mrr and hits@K",
        ),
        ({"training": {"loss": "mse"}}, "'mse' is of vertices; pairs have 'bce'"),
        ({"training": {"metric": "mrr"}, "graph": GRAPH}, "'mrr' does not go with labels; pairs are asked for"),
        (
            {"pin": {"techniques": {"source_chunks": True}}, "fidelity": "stale(2)"},
            "a link prediction needs every pair",
        ),
    ],
)
def test_what_does_not_go_with_pairs_is_refused(changes, words, tmp_path):
    """In one line."""
    with pytest.raises(UserError, match=words):
        api.plan(job_of(**changes), two_workers(tmp_path), tmp_path / "plan.json")


def test_statistics_know_no_pairs():
    """Nor do pilots."""
    with pytest.raises(UserError, match="statistics know no pairs"):
        api.statistics(job_of())
    with pytest.raises(UserError, match="has no pilot"):
        api.pilot(job_of(), 0.5)


def test_shards_have_every_pair_once(tmp_path):
    """Whoever owns its head."""
    from gnnplan.planner.plan_files import load_partition
    from gnnplan.planner.run import cycle_of

    job = job_of(pin={"num_workers": 2, **PINS["rows"]})
    plan = api.plan(job, two_workers(tmp_path), tmp_path / "plan.json")
    graph = load_graph(job.graph)
    cycle = cycle_of(plan, graph, load_partition(plan, tmp_path / "plan.json"))
    numbers = [
        sp.csr_matrix(part.cut_out() if hasattr(part, "cut_out") else part).data
        for part in cycle.arrays.matrices["pairs"]
    ]
    assert sorted(np.concatenate(numbers)) == list(range(1, graph.pairs.trained.num_pairs + 1))
