"""Workers without some halo vertices train what one process trains on the matrix without those entries.

Degrees are those of the whole graph.
"""

import json
import os
from pathlib import Path

import numpy as np
import pytest
import torch

from gnnplan.planner import api
from gnnplan.planner.adjacency import aggregation_matrix
from gnnplan.planner.cluster import Cluster, DeviceSpec, HostSpec
from gnnplan.planner.graph import Graph
from gnnplan.planner.halo import build_halo, prune_halo
from gnnplan.planner.job import Job, ModelSpec, PinnedDecisions, SbmGraph, TrainingSpec
from gnnplan.planner.loaders import load_graph
from gnnplan.planner.plan import load_partition
from gnnplan.planner.run import write_shards
from gnnplan.planner.shard import cut_shard
from gnnplan.profiles.agents import HostGroup
from gnnplan.profiles.catalog import catalog_profile
from gnnplan.profiles.errors import UserError
from gnnplan.profiles.machine import Link
from gnnplan.runtime.reference import build_optimizer, build_pyg_model, graph_tensors, loss_of
from tests.warm import launch, runs

pytestmark = pytest.mark.distributed

EPOCHS, NUM_WORKERS, N = 5, 3, 120
TRAINING = TrainingSpec(epochs=EPOCHS, seed=2, optimizer="sgd", learning_rate=0.2)
MULTIPLY, AGGREGATE, ONCE = ("multiply_first", False), ("aggregate_first", False), ("aggregate_first", True)
# (model, order of the first layer and precompute, sparse features)
CASES = [(kind, MULTIPLY, False) for kind in ("gcn", "sage", "gat", "gin", "tagcn")]
CASES += [(kind, order, False) for kind in ("gcn", "sage", "tagcn") for order in (AGGREGATE, ONCE)]
CASES += [("gcn", MULTIPLY, True), ("tagcn", ONCE, True)]
WORKER = """
import json, os, sys
from datetime import timedelta
from pathlib import Path

import torch
import torch.distributed as dist

from gnnplan.planner.job import Job
from gnnplan.planner.steps import LayerDecision, build_program
from gnnplan.planner.shard import Shard
from gnnplan.profiles.launch import reporting_errors
from gnnplan.runtime.full_batch import FullBatchTrainer
from gnnplan.runtime.model import WorkerModel

folder, rank = Path(sys.argv[1]), int(os.environ["RANK"])
with reporting_errors(folder, rank):
    torch.set_num_threads(1)
    dist.init_process_group("gloo", timeout=timedelta(seconds=120))
    for case in sorted(folder.glob("case_*")):
        job, facts = Job.load(case / "job.json"), json.loads((case / "facts.json").read_text())
        shard = Shard.load(case / f"worker_{rank}.npz")
        first = LayerDecision(op_order=facts["order"], precompute=facts["precompute"])
        later = LayerDecision(op_order=facts["order"])
        program = build_program(
            job.model, (first, later), num_features=shard.x.shape[1], num_classes=shard.num_classes,
            sparse_input=facts["sparse"],
        )
        trainer = FullBatchTrainer(WorkerModel(job, program, shard, torch.device("cpu")), shard)
        losses = [trainer.train_epoch(epoch, traced=False).loss for epoch in range(job.training.epochs)]
        if rank == 0:
            torch.save(trainer.model.net.state_dict(), case / "model.pt")
            (case / "losses.json").write_text(json.dumps(losses))
    dist.destroy_process_group()
"""


def spec_of(kind):
    """Two layers."""
    return ModelSpec(kind=kind, num_layers=2, hidden_channels=8, heads=2, num_hops=2)


def directed_graph():
    """Directed, with self loops and repeated edges; part of the features are zero."""
    rng = np.random.default_rng(7)
    edges = np.stack([(N * rng.random(700) ** 2).astype(np.int64), rng.integers(0, N, 700)])
    edges = np.concatenate([edges, edges[:, :40], np.tile(rng.integers(0, N, 20), (2, 1))], axis=1)
    x = (rng.standard_normal((N, 10)) * (rng.random((N, 10)) < 0.4)).astype(np.float32)
    train = rng.random(N) < 0.5
    return Graph(N, edges, x, rng.integers(0, 3, N), train, ~train, ~train, 3, "directed").validate()


def random_cut(graph, kind):
    """(halo, part, pruned): random owners, and half of the pairs pruned."""
    rng = np.random.default_rng(1)
    part = rng.integers(0, NUM_WORKERS, N)
    halo = build_halo(aggregation_matrix(N, graph.edge_index, kind), part, NUM_WORKERS)
    workers = np.repeat(np.arange(NUM_WORKERS), [len(block.halo) for block in halo.blocks])
    pairs = np.stack([workers, np.concatenate([block.halo for block in halo.blocks])])
    pruned = pairs[:, rng.random(pairs.shape[1]) < 0.5]
    return prune_halo(halo, pruned), part, pruned


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    """The folder in which every case was trained, by one launch of three workers."""
    folder, graph = tmp_path_factory.mktemp("pruned"), directed_graph()
    for number, (kind, (order, precompute), sparse) in enumerate(CASES):
        case = folder / f"case_{number:02}"
        case.mkdir()
        Job(graph=SbmGraph(source="sbm"), model=spec_of(kind), training=TRAINING).save(case / "job.json")
        facts = {"order": order, "precompute": precompute, "sparse": sparse}
        (case / "facts.json").write_text(json.dumps(facts))
        halo, _, _ = random_cut(graph, kind)
        for rank in range(NUM_WORKERS):
            cut_shard(graph, halo, rank, sparse_features=sparse).save(case / f"worker_{rank}.npz")
    (folder / "pruned_worker.py").write_text(WORKER)
    launch(
        "pruned_worker",
        [str(folder)],
        hosts=[HostGroup(NUM_WORKERS)],
        folder=folder,
        environment={"PYTHONPATH": os.pathsep.join([str(folder), str(Path(__file__).parents[2])])},
    )
    return folder


def pruned_matrix(graph, kind, part, pruned):
    """Dense A [N, N] of the whole graph, then the pruned entries zeroed: (owner of the row, column)."""
    matrix = torch.from_numpy(aggregation_matrix(graph.num_nodes, graph.edge_index, kind).toarray())
    for worker, vertex in pruned.T.tolist():
        matrix[torch.from_numpy(part == worker), vertex] = 0
    return matrix


def forward(net, kind, matrix, h):
    """Logits [N, C] by dense products; GAT by PyG on the edges that are left."""
    for layer, conv in enumerate(net.convs):
        match kind:
            case "gcn":
                h = matrix @ conv.lin(h) + conv.bias
            case "sage":
                h = conv.lin_l(matrix @ h) + conv.lin_r(h)
            case "gin":
                h = conv.nn(matrix @ h)
            case "tagcn":
                hops = [h]
                for _ in conv.lins[1:]:
                    hops.append(matrix @ hops[-1])
                h = sum(lin(hop) for lin, hop in zip(conv.lins, hops, strict=True)) + conv.bias
            case "gat":
                # The matrix counts repeated edges, which attend apart; its diagonal is PyG's own self loop.
                times = (matrix - torch.eye(len(matrix))).t().long()
                edges = times.nonzero().repeat_interleave(times[times > 0], dim=0)
                h = conv(h, edges.t())
        if layer < len(net.convs) - 1:
            h = h.relu()
    return h


def train_dense(graph, model, training, matrix):
    """(losses, state_dict) of one process on a dense matrix."""
    x, _, y = graph_tensors(graph)
    net = build_pyg_model(model, graph.num_features, graph.num_classes, training.seed)
    optimizer = build_optimizer(net.parameters(), training)
    losses = []
    for _ in range(training.epochs):
        optimizer.zero_grad()
        loss = loss_of(forward(net, model.kind, matrix, x), y, torch.from_numpy(graph.train_mask))
        loss.backward()
        optimizer.step()
        losses.append(float(loss.detach()))
    return losses, net.state_dict()


def assert_same(losses, weights, expected):
    """To rounding; weights after the last step hold every gradient before it."""
    assert losses == pytest.approx(expected[0], rel=1e-5)
    for key, weight in expected[1].items():
        torch.testing.assert_close(weights[key], weight, rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize("number", range(len(CASES)), ids=lambda number: "-".join(map(str, CASES[number])))
def test_losses_and_weights_are_the_dense_references(number, trained):
    """Five steps forward and backward, and they are not those of the whole matrix."""
    kind, case, graph = CASES[number][0], trained / f"case_{number:02}", directed_graph()
    _, part, pruned = random_cut(graph, kind)
    losses = json.loads((case / "losses.json").read_text())
    weights = torch.load(case / "model.pt", weights_only=True)
    assert_same(losses, weights, train_dense(graph, spec_of(kind), TRAINING, pruned_matrix(graph, kind, part, pruned)))
    once, whole = TRAINING.model_copy(update={"epochs": 1}), pruned_matrix(graph, kind, part, pruned[:, :0])
    assert losses[0] != pytest.approx(train_dense(graph, spec_of(kind), once, whole)[0][0], rel=1e-4)


def cluster_of(folder):
    """Two workers of one host: a published GPU's figures under the device kind of a CPU, and one a fifth as fast."""
    fast = catalog_profile("rtx-3090").model_copy(update={"device_kind": "cpu", "num_threads": 1, "name": "fast"})
    tables = {
        name: table.model_copy(
            update={"points": tuple(p.model_copy(update={"median_s": 5 * p.median_s}) for p in table.points)}
        )
        for name, table in fast.operators.items()
    }
    slow = fast.model_copy(update={"operators": tables, "name": "slow"})
    devices = tuple(DeviceSpec(profile=p.save(folder / f"{p.name}.json")) for p in (fast, slow))
    return Cluster(hosts=(HostSpec(name="here", devices=devices),), device_link=Link(bytes_per_s=1e7))


def pruned_plan(folder):
    """Planned for two workers, the slower of which does without some of its halo."""
    spec = SbmGraph(source="sbm", num_nodes=200, average_degree=8, num_classes=4, num_features=12, feature_signal=3.0)
    pin = PinnedDecisions(prune="rapa", balance="equal", partitioner="metis")
    job = Job(graph=spec, model=spec_of("gcn"), training=TRAINING, fidelity="approximate", pin=pin)
    return api.plan(job, cluster_of(folder), folder / "plan.json")


def test_a_pruned_plan_runs_as_planned(tmp_path):
    """Pairs chosen by the planner reach the workers: losses of the dense reference, tasks and bytes as predicted."""
    plan = pruned_plan(tmp_path)
    partition, predicted = load_partition(plan, tmp_path / "plan.json"), api.simulate(plan)
    with runs():
        measured = api.run(tmp_path / "plan.json", tmp_path / "run", timeout_s=100)
    assert plan.fidelity == "approximate"
    assert partition.pruned.shape[1] > 0
    assert measured.sent_bytes == predicted.sent_bytes
    assert {(s.task, s.worker) for s in measured.spans} == {(s.task, s.worker) for s in predicted.spans}
    graph = load_graph(plan.job.graph)
    matrix = pruned_matrix(graph, "gcn", partition.part, partition.pruned)
    weights = torch.load(tmp_path / "run" / "model.pt", weights_only=True)
    assert_same(list(measured.losses), weights, train_dense(graph, plan.job.model, TRAINING, matrix))


def test_pairs_of_another_worker_do_not_run(tmp_path):
    """As many in all is not enough: each worker does without its own."""
    plan = pruned_plan(tmp_path)
    partition, graph = load_partition(plan, tmp_path / "plan.json"), load_graph(plan.job.graph)
    write_shards(plan, graph, partition, tmp_path / "shards")
    assert plan.pruned[0].num_vertices != plan.pruned[1].num_vertices
    with pytest.raises(UserError, match="other halo rows than its partition has"):
        write_shards(plan.model_copy(update={"pruned": plan.pruned[::-1]}), graph, partition, tmp_path / "shards")
