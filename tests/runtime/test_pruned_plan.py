"""Workers without some halo vertices train what one process trains on the matrix without those entries.

Degrees are those of the whole graph.
"""

import numpy as np
import pytest
import torch

from gnnplan.planner import api
from gnnplan.planner.adjacency import aggregation_matrix
from gnnplan.planner.cluster import Cluster, DeviceSpec, HostSpec, resolve
from gnnplan.planner.contracts.choice import Choice
from gnnplan.planner.contracts.technique import LAYOUT
from gnnplan.planner.graph import Graph
from gnnplan.planner.graph_spec import SbmGraph
from gnnplan.planner.job import Job
from gnnplan.planner.job_pins import PinnedDecisions
from gnnplan.planner.loaders import load_graph
from gnnplan.planner.model_spec import ModelSpec
from gnnplan.planner.models.forward import num_levels
from gnnplan.planner.models.pyg_models import build_pyg_model
from gnnplan.planner.plan_files import load_partition
from gnnplan.planner.program.sequential import SequentialExecutor
from gnnplan.planner.run import write_shards
from gnnplan.planner.search.decide import setting_of
from gnnplan.planner.search.evaluate import compose_candidate
from gnnplan.planner.techniques.registry import technique, techniques
from gnnplan.planner.training_spec import TrainingSpec
from gnnplan.profiles.catalog import catalog_profile
from gnnplan.profiles.errors import UserError
from gnnplan.profiles.machine import Link
from gnnplan.runtime.reference import build_optimizer, graph_tensors, loss_of
from tests.warm import runs

EPOCHS, NUM_WORKERS, N = 5, 3, 120
TRAINING = TrainingSpec(epochs=EPOCHS, seed=2, optimizer="sgd", learning_rate=0.2)
MULTIPLY = {"op_order": "multiply_first"}
AGGREGATE = {"op_order": "aggregate_first", "precompute": False, "feature_cache": False}
ONCE = {"op_order": "aggregate_first", "precompute": True}
# (model, pins, sparse features)
CASES = [(kind, MULTIPLY, False) for kind in ("gcn", "sage", "gat", "gin", "tagcn")]
CASES += [(kind, order, False) for kind in ("gcn", "sage", "tagcn") for order in (AGGREGATE, ONCE)]
CASES += [("gcn", MULTIPLY, True), ("tagcn", ONCE, True)]


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


def random_cut(graph, model):
    """(part, dropped): random owners, and half of what the workers do not own dropped, others in every layer.

    The hops of a layer are summed in an order that is the program's own, so they drop the same.
    """
    rng, num_hops = np.random.default_rng(1), num_levels(model) // model.num_layers
    part = rng.integers(0, NUM_WORKERS, N).astype(np.int32)
    is_dropped = np.repeat(rng.random((model.num_layers, NUM_WORKERS, N)) < 0.5, num_hops, axis=0)
    rows = np.argwhere(is_dropped).T.astype(np.int32)
    return part, rows[:, part[rows[2]] != rows[1]]


def composed(graph, kind, pins, sparse):
    """The case's candidate: pins decide what every technique does, and the drawn rows are dropped."""
    job = Job(
        graph=SbmGraph(source="sbm"),
        model=spec_of(kind),
        training=TRAINING,
        pin=PinnedDecisions(sparse_features=sparse, **pins),
    )
    place = resolve(Cluster(hosts=(HostSpec(name="here", devices=(DeviceSpec(catalog="t4", count=NUM_WORKERS),)),)))
    setting = setting_of(job, place, graph)
    part, dropped = random_cut(graph, job.model)
    cut = {"halo_exchange": {"part": part}, "pruning": {"dropped": dropped}}
    given = [Choice(name, technique(name).Decision(), arrays) for name, arrays in cut.items()]
    others = [each for name, each in techniques().items() if name not in cut and LAYOUT not in each.claims]
    first = (next(iter(each.options(setting, None))) for each in others)
    return compose_candidate(setting, [*given, *(choice for choice in first if choice)]), part, dropped


def train_sequentially(candidate):
    """(losses, weights by name) of all workers in one process and float64."""
    cycle, graph, job = candidate.cycle, candidate.setting.graph, candidate.setting.job
    net = build_pyg_model(job.model, graph.num_features, graph.num_classes, job.training.seed)
    ids = cycle.arrays.ids
    x = [torch.from_numpy(graph.x[each]).double() for each in ids[cycle.values["x"].space]]
    x = [each.to_sparse_csr() for each in x] if cycle.values["x"].layout == "csr" else x
    y = [torch.from_numpy(graph.y)[each][:, None] for each in ids[cycle.values["y"].space]]
    start = {n: p.detach().view(len(p) if p.dim() > 1 else 1, -1) for n, p in net.named_parameters()}
    executor = SequentialExecutor(cycle, {"x": x, "y": y}, start)
    losses = [float(each["total_loss"][0]) for each in executor.train(EPOCHS)]
    return losses, {n: executor.stored[n][0].view_as(p) for n, p in net.named_parameters()}


def pruned_matrices(graph, kind, part, dropped):
    """By level dense A [N, N] of the whole graph, then the dropped entries zeroed: (owner of the row, column)."""
    matrix = torch.from_numpy(aggregation_matrix(graph.num_nodes, graph.edge_index, kind).toarray()).double()
    found = []
    for level in range(num_levels(spec_of(kind))):
        less = matrix.clone()
        for _, worker, vertex in dropped[:, dropped[0] == level].T.tolist():
            less[torch.from_numpy(part == worker), vertex] = 0
        found.append(less)
    return found


def forward(net, kind, matrices, h):
    """Logits [N, C] by dense products, a matrix a level; GAT by PyG on the edges that are left."""
    left = iter(matrices)
    for layer, conv in enumerate(net.convs):
        matrix = next(left) if kind != "tagcn" else None
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
                    hops.append(next(left) @ hops[-1])
                h = sum(lin(hop) for lin, hop in zip(conv.lins, hops, strict=True)) + conv.bias
            case "gat":
                # The matrix counts repeated edges, which attend apart; its diagonal is PyG's own self loop.
                times = (matrix - torch.eye(len(matrix))).t().long()
                edges = times.nonzero().repeat_interleave(times[times > 0], dim=0)
                h = conv(h, edges.t())
        if layer < len(net.convs) - 1:
            h = h.relu()
    return h


def train_dense(graph, model, training, matrices):
    """(losses, weights by name) of one process on dense matrices, in float64."""
    x, _, y = graph_tensors(graph)
    net = build_pyg_model(model, graph.num_features, graph.num_classes, training.seed).double()
    optimizer = build_optimizer(net.parameters(), training)
    losses = []
    for _ in range(training.epochs):
        optimizer.zero_grad()
        loss = loss_of(forward(net, model.kind, matrices, x.double()), y, torch.from_numpy(graph.train_mask))
        loss.backward()
        optimizer.step()
        losses.append(float(loss.detach()))
    return losses, {name: parameter.detach() for name, parameter in net.named_parameters()}


def assert_same(losses, weights, expected, rel=1e-9):
    """Weights after the last step hold every gradient before it."""
    assert losses == pytest.approx(expected[0], rel=rel)
    for key, weight in expected[1].items():
        torch.testing.assert_close(weights[key].double(), weight, rtol=10 * rel, atol=0.1 * rel)


@pytest.mark.long
@pytest.mark.parametrize(("kind", "pins", "sparse"), CASES)
def test_losses_and_weights_are_the_dense_references(kind, pins, sparse):
    """Five steps forward and backward, and they are not those of the whole matrix."""
    graph = directed_graph()
    candidate, part, dropped = composed(graph, kind, pins, sparse)
    assert "setup" in candidate.cycle.programs or pins is not ONCE
    losses, weights = train_sequentially(candidate)
    expected = train_dense(graph, spec_of(kind), TRAINING, pruned_matrices(graph, kind, part, dropped))
    assert_same(losses, weights, expected)
    once, whole = TRAINING.model_copy(update={"epochs": 1}), pruned_matrices(graph, kind, part, dropped[:, :0])
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
    pin = PinnedDecisions(prune="rapa", balance="equal", partitioner="metis", num_workers=2)
    job = Job(graph=spec, model=spec_of("gcn"), training=TRAINING, fidelity="approximate", pin=pin)
    return api.plan(job, cluster_of(folder), folder / "plan.json")


@pytest.mark.long
@pytest.mark.distributed
def test_a_pruned_plan_runs_as_planned(tmp_path):
    """Rows chosen by the planner reach the workers: losses of the dense reference, tasks and bytes as predicted."""
    plan = pruned_plan(tmp_path)
    partition, predicted = load_partition(plan, tmp_path / "plan.json"), api.simulate(plan)
    with runs():
        measured = api.run(tmp_path / "plan.json", tmp_path / "run", timeout_s=100)
    dropped = partition.chosen["pruning/dropped"]
    assert plan.fidelity == "approximate"
    assert dropped.size
    assert measured.sent_bytes == predicted.sent_bytes
    assert {(s.task, s.worker) for s in measured.spans} == {(s.task, s.worker) for s in predicted.spans}
    graph = load_graph(plan.job.graph)
    matrices = pruned_matrices(graph, "gcn", partition.part, dropped)
    weights = torch.load(tmp_path / "run" / "model.pt", weights_only=True)
    assert_same(list(measured.losses), weights, train_dense(graph, plan.job.model, TRAINING, matrices), rel=1e-5)


@pytest.mark.long
def test_rows_of_another_worker_do_not_run(tmp_path):
    """As many in all is not enough: each worker does without its own."""
    plan = pruned_plan(tmp_path)
    partition, graph = load_partition(plan, tmp_path / "plan.json"), load_graph(plan.job.graph)
    write_shards(plan, graph, partition, tmp_path / "shards")
    rows = partition.chosen["pruning/dropped"].copy()
    rows[1] = 1 - rows[1]
    partition.chosen["pruning/dropped"][:] = rows
    with pytest.raises(UserError, match=r"make (it|the plan) again"):
        write_shards(plan, graph, partition, tmp_path / "shards")
