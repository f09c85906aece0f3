"""Any split trains what one PyG process trains, before, during and after adjustments, with the bytes planned."""

import os
from pathlib import Path

import numpy as np
import pytest
import torch

from gnnplan.planner.generate import generate_sbm
from gnnplan.planner.graph import Graph
from gnnplan.planner.hybrid.buffers import hybrid_buffers
from gnnplan.planner.hybrid.memory import Staging, estimate_hybrid_memory
from gnnplan.planner.job import Job, SbmGraph, TrainingSpec
from gnnplan.planner.plan import FullBatchDecision
from gnnplan.profiles.agents import HostGroup
from gnnplan.profiles.catalog import catalog_profile
from gnnplan.profiles.kernels.activation import dropout_key, keep_mask
from gnnplan.runtime.reference import INPUT_LAYER, build_optimizer, build_pyg_model, graph_tensors, loss_of, pyg_forward
from tests.planner.hybrid.shares import AFTER, FIRST, ONCE, Shares
from tests.warm import launch

pytestmark = pytest.mark.distributed

EPOCHS = 12
N = 90
TRAINING = TrainingSpec(epochs=EPOCHS, seed=2, optimizer="sgd", learning_rate=0.2)
SPLITS = {"nothing": 0.0, "random": 0.4, "everything": 1.0}
MODELS = {
    "gcn-product": ("gcn", (AFTER, AFTER, AFTER)),
    "gcn-once": ("gcn", (ONCE, FIRST, AFTER)),
    "sage-first": ("sage", (FIRST, FIRST, AFTER)),
    "sage-once": ("sage", (ONCE, FIRST, FIRST)),
    "gin-once": ("gin", (ONCE, AFTER, FIRST)),
    "gat": ("gat", (AFTER, AFTER, AFTER)),
    "tagcn-first": ("tagcn", (FIRST, FIRST)),
    "tagcn-once": ("tagcn", (ONCE, FIRST)),
}
DROPPING = {"dropout": 0.5, "input_dropout": 0.3}


def directed_graph():
    """Directed, with self loops, repeated edges and isolated vertices; part of the features are zero."""
    rng = np.random.default_rng(7)
    edges = np.stack([((N - 4) * rng.random(330) ** 2).astype(np.int64), rng.integers(0, N - 4, 330)])
    edges = np.concatenate([edges, edges[:, :30], np.tile(rng.integers(0, N - 4, 15), (2, 1))], axis=1)
    x = (rng.standard_normal((N, 10)) * (rng.random((N, 10)) < 0.4)).astype(np.float32)
    train = rng.random(N) < 0.5
    return Graph(N, edges, x, rng.integers(0, 3, N), train, ~train, ~train, 3, "directed").validate()


class Case:
    """A model on a partition, its workers' splits, and what the workers did."""

    def __init__(self, model, num_workers, share, *, sparse=False, moves=False, graph=None, **changes):
        kind, layers = MODELS[model]
        self.shares = Shares(
            kind, layers, graph or directed_graph(), num_workers, sparse=sparse,
            hidden=64 if graph else 8, model_changes=changes,
        )  # fmt: skip
        self.num_workers, self.is_moving = num_workers, moves
        self.masks = [self.shares.masks(share, seed=5)]
        if moves:
            self.masks += [self.shares.masks(each, seed=6) for each in (1.0, 0.3, 0.0)]
        self.job = Job(graph=SbmGraph(source="sbm"), model=self.shares.model, training=TRAINING)

    def write(self, folder, *, online=False):
        """All that its workers need."""
        folder.mkdir()
        self.job.save(folder / "job.json")
        decision = FullBatchDecision(
            partitioner="ranges",
            target_weights=(1.0,) * self.num_workers,
            layers=self.shares.layers,
            sparse_features=self.shares.sparse,
        )
        (folder / "decision.json").write_text(decision.model_dump_json())
        for rank in range(self.num_workers):
            self.shares.shard(rank).save(folder / f"worker_{rank}.npz")
            planned = [masks[rank] for masks in self.masks]
            may_cache = np.ones_like(planned[0]) if online else np.any(planned, axis=0)
            self.shares.staged(rank, planned[0], may_cache, adjusts=online).save(folder / f"staged_{rank}.npz")
            if self.is_moving:
                moves = {str(epoch): mask for epoch, mask in enumerate(planned[1:])}
                np.savez(folder / f"moves_{rank}.npz", **moves)

    def read(self, folder):
        """What its workers wrote."""
        self.results = [dict(np.load(folder / f"result_{rank}.npz")) for rank in range(self.num_workers)]
        return self

    def logits(self):
        """Of all vertices, after the last step."""
        whole = np.full((self.shares.graph.num_nodes, self.shares.graph.num_classes), np.nan, np.float32)
        for result in self.results:
            whole[result["vertices"]] = result["logits"]
        return whole

    def reference(self):
        """(logits after the last step, losses, flat gradients of every epoch) of one PyG process."""
        graph, model = self.shares.graph, self.shares.model
        x, edge_index, y = graph_tensors(graph)
        net = build_pyg_model(model, graph.num_features, graph.num_classes, TRAINING.seed)
        optimizer, mask = build_optimizer(net.parameters(), TRAINING), torch.from_numpy(graph.train_mask)
        losses, grads = [], []
        for epoch in range(EPOCHS):
            optimizer.zero_grad()
            loss = loss_of(pyg_forward(net, x, edge_index, dropout_of(model, epoch, graph.num_nodes)), y, mask)
            loss.backward()
            optimizer.step()
            losses.append(float(loss.detach()))
            grads.append(torch.cat([p.grad.reshape(-1) for p in net.parameters()]).numpy().copy())
        with torch.no_grad():
            return pyg_forward(net, x, edge_index).numpy(), losses, grads


def dropout_of(model, epoch, num_nodes):
    """The engine's masks, for all vertices at once."""
    if not (model.dropout or model.input_dropout):
        return None
    vertices = torch.arange(num_nodes)[:, None]

    def drop(h, layer, width):
        probability = model.input_dropout if layer == INPUT_LAYER else model.dropout
        key = dropout_key(TRAINING.seed, epoch, layer)
        return h * keep_mask(key, vertices, torch.arange(width), width, probability) / (1 - probability)

    return drop


NUM_WORKERS = 3  # `python -m benchmarks exactness` has one to four


def cases_of(num_workers):
    """By name: every model under every kind of split, some whose splits change, and what is counted."""
    made = {f"{name}-{split}": Case(name, num_workers, share) for name in MODELS for split, share in SPLITS.items()}
    for name in ("gcn-product", "sage-first", "gin-once", "gat"):
        made[f"moving-{name}"] = Case(name, num_workers, 0.4, moves=True)
    made["dropping-gcn"] = Case("gcn-product", num_workers, 0.4, moves=True, **DROPPING)
    made["dropping-sage"] = Case("sage-first", num_workers, 0.4, **DROPPING)
    made["dropping-sparse"] = Case("gcn-product", num_workers, 0.4, sparse=True, moves=True, **DROPPING)
    made["sparse-once"] = Case("sage-once", num_workers, 0.4, sparse=True, moves=True)
    made["online-gcn"] = Case("gcn-product", num_workers, 0.4)
    made["online-moved-gcn"] = Case("gcn-product", num_workers, 0.4)
    large = generate_sbm(SbmGraph(source="sbm", num_nodes=4000, average_degree=6, num_classes=16, num_features=96))
    for name in ("gcn-product", "sage-first", "gat", "tagcn-once"):
        made[f"pooled-{name}"] = Case(name, num_workers, 0.3, graph=large)
    return made


@pytest.fixture(scope="module")
def cases(tmp_path_factory):
    """Every case, trained in one launch."""
    folder, made = tmp_path_factory.mktemp("hybrid"), cases_of(NUM_WORKERS)
    for name, case in made.items():
        case.write(folder / name, online=name.startswith("online"))
    launch(
        "tests.runtime.hybrid.hybrid_worker",
        [str(folder)],
        hosts=[HostGroup(NUM_WORKERS)],
        folder=folder,
        environment=pythonpath(),
    )
    return {name: case.read(folder / name) for name, case in made.items()}


def pythonpath():
    """This repository first, then what was there."""
    before = os.environ.get("PYTHONPATH")
    return {"PYTHONPATH": os.pathsep.join([str(Path(__file__).parents[3]), *([before] if before else [])])}


def relative_l2(found, expected):
    return np.linalg.norm(np.asarray(found) - expected) / np.linalg.norm(expected)


def test_every_split_is_exact(cases):
    """Losses, gradients of every epoch and logits after the last, of every model, split, dropout and adjustment."""
    for name, case in cases.items():
        if name.startswith("pooled"):
            continue
        logits, losses, grads = case.reference()
        for result in case.results:
            np.testing.assert_allclose(result["loss"], losses, rtol=1e-5, err_msg=name)
            for epoch in range(EPOCHS):
                assert relative_l2(result["grad"][epoch], grads[epoch]) <= 1e-5, (name, epoch)
        assert relative_l2(case.logits(), logits) <= 1e-5, name


def test_bytes_and_tasks_are_the_planned_ones(cases):
    """In every epoch those of its own split, to the byte, on every worker, in the planned order."""
    for name, case in cases.items():
        if name.startswith("online"):
            continue
        lowerings = [case.shares.lowering(masks) for masks in case.masks]
        for rank, result in enumerate(case.results):
            for epoch in range(EPOCHS):
                lowering = lowerings[min(epoch, len(lowerings) - 1)]
                assert result["sent"][epoch] == lowering.sent_bytes[rank], (name, epoch)
                assert str(result["keys"][epoch]).split() == lowering.schedule.keys_of(rank), (name, epoch)


def test_what_is_cached_does_not_travel(cases):
    """Everything cached: not a byte of rows; nothing cached: those of the plain exchange."""
    for name, case in cases.items():
        if name.endswith("-everything"):
            assert not any(result["sent"].any() for result in case.results), name
        if name.endswith("-nothing"):
            plain = case.shares.lowering().sent_bytes
            assert [result["sent"][0] for result in case.results] == plain.tolist(), name


def test_online_it_follows_the_weather(cases):
    """On slow links everything is cached, with slow computing nothing, and no choice is above its bound.

    Every weather lasts three epochs. By the second workers believe in it, and set up after the third what they want.
    """
    case = cases["online-gcn"]
    for result, mask in zip(case.results, case.masks[0], strict=True):
        assert result["num_cached"].tolist() == [mask.sum(), *[mask.size] * 4, 0, 0, 0, mask.size]
        assert (result["saved_s"] <= result["bound_s"] * (1 + 1e-12)).all()
        assert (result["saved_s"][[1, 5, 8]] >= 0).all(), "of what was set up"
        assert not result["sent"][4:8].any()
    plain = case.shares.lowering().sent_bytes
    assert [result["sent"][8] for result in case.results] == plain.tolist()


def test_online_it_follows_at_once_where_epochs_move(cases):
    """The first epoch of another weather is far longer or shorter, so its choice is set up after it."""
    case = cases["online-moved-gcn"]
    for result, mask in zip(case.results, case.masks[0], strict=True):
        assert result["num_cached"].tolist() == [*[mask.size] * 3, *[0] * 3, *[mask.size] * 3]


def test_pool_and_tensors_are_what_was_counted(cases):
    """Buffers to the byte; matrices and inputs not below what they take, and not far above."""
    for name, case in cases.items():
        if not name.startswith("pooled"):
            continue
        shares, replicas = case.shares, case.shares.replicas(case.masks[0])
        for rank, result in enumerate(case.results):
            buffers = hybrid_buffers(shares.program, shares.shapes[rank], 16, replicas, rank)
            assert result["pool_bytes"] == buffers.pooled_bytes > 0, name
            memory = estimate_hybrid_memory(
                shares.program, shares.shapes[rank], catalog_profile("t4"), replicas, Staging(0, 0, 0, 0), rank,
                num_features=96, num_classes=16, has_optimizer_state=False,
            )  # fmt: skip
            predicted = memory.graph_bytes + memory.input_bytes
            assert result["tensor_bytes"] <= predicted <= 1.5 * result["tensor_bytes"], name
