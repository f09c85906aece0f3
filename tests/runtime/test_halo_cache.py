"""Kept halo rows: the exact model where weights rest, the bytes and buffers that were planned, and it learns."""

import os
from itertools import product

import numpy as np
import pytest

from gnnplan.planner.adjacency import aggregation_matrix
from gnnplan.planner.buffers import epoch_buffers
from gnnplan.planner.cluster import Cluster, DeviceSpec, HostSpec, resolve
from gnnplan.planner.costs import OperatorCosts
from gnnplan.planner.generate import generate_sbm
from gnnplan.planner.halo import build_halo
from gnnplan.planner.job import Job, ModelSpec, SbmGraph, TrainingSpec
from gnnplan.planner.joint_cache.decision import NO_CACHE
from gnnplan.planner.joint_cache.region import decide_rows
from gnnplan.planner.lowering import FullBatchLowering
from gnnplan.planner.partition import partition
from gnnplan.planner.plan import FullBatchDecision
from gnnplan.planner.shapes import worker_shapes
from gnnplan.planner.shard import cut_shard
from gnnplan.planner.steps import LayerDecision, build_program, num_hops
from gnnplan.profiles.agents import HostGroup
from tests.warm import launch

pytestmark = pytest.mark.distributed

WORKER = """
import gc, os, sys
from datetime import timedelta
from pathlib import Path

import numpy as np
import torch
import torch.distributed as dist

from gnnplan.planner.job import Job
from gnnplan.planner.plan import FullBatchDecision
from gnnplan.planner.steps import build_program
from gnnplan.planner.shard import Shard
from gnnplan.profiles.kernels import pool
from gnnplan.profiles.launch import reporting_errors
from gnnplan.runtime.full_batch import FullBatchTrainer
from gnnplan.runtime.host_region import HostRegion
from gnnplan.runtime.model import WorkerModel

folder, rank = Path(sys.argv[1]), int(os.environ["RANK"])


def train(case):
    job = Job.load(case / "job.json")
    decision = FullBatchDecision.model_validate_json((case / "decision.json").read_text())
    shard = Shard.load(case / f"worker_{rank}.npz")
    program = build_program(job.model, decision.layers, num_features=shard.x.shape[1], num_classes=shard.num_classes,
                            sparse_input=False)
    gc.collect()
    region = HostRegion.open(shard, program, decision.cache, torch.device("cpu"), timeout_s=60)
    model = WorkerModel(job, program, shard, torch.device("cpu"), decision.cache, region, overlap=decision.overlap)
    trainer = FullBatchTrainer(model, shard)
    del model  # the trainer alone has it
    pool.release()
    found = {"loss": [], "sent": [], "grad": [], "keys": []}
    for epoch in range(job.training.epochs):
        record = trainer.train_epoch(epoch, traced=True)
        found["loss"].append(record.loss)
        found["sent"].append(record.sent_bytes)
        found["grad"].append(torch.cat([p.grad.reshape(-1) for p in trainer.parameters]).numpy().copy())
        found["keys"].append(" ".join(span[0] for span in sorted(record.spans, key=lambda span: span[2])))
        if "moving-evaluate" in case.name:
            trainer.evaluate()
    held = 0
    if "evaluate" not in case.name:
        # What is kept and what waits for its next tensor is all the pool's, once the trainer is gone.
        del trainer
        dist.barrier()  # gloo's thread may hold the last reduction's tensor a moment longer than who waited for it
        gc.collect()
        held = pool.held_bytes()
        scores = {}
    else:
        scores = trainer.evaluate()
        del trainer
        gc.collect()
    np.savez(case / f"result_{rank}.npz", held=held, score=scores.get("test", 0.0), **found)


with reporting_errors(folder, rank):
    torch.set_num_threads(1)
    dist.init_process_group("gloo", timeout=timedelta(seconds=60))
    for case in sorted(path for path in folder.iterdir() if (path / "job.json").exists()):
        train(case)
    dist.destroy_process_group()
"""
NUM_WORKERS, INTERVAL, EPOCHS = 3, 3, 5
STEPS = (0.05, 0.0125)
HOST_OF = (0, 0, 1)  # the first two workers share a region
SMALL = SbmGraph(source="sbm", num_nodes=150, average_degree=6, num_classes=3, num_features=10, seed=2)
LARGE = SbmGraph(source="sbm", num_nodes=6000, average_degree=12, num_classes=16, num_features=96)
NOISY = SbmGraph(
    source="sbm", num_nodes=1500, average_degree=10, num_classes=5, num_features=24, feature_signal=1.0, seed=4
)
MODELS = [("gcn", "multiply_first"), ("gcn", "aggregate_first"), ("gat", "multiply_first"),
          ("sage", "multiply_first"), ("sage", "aggregate_first"), ("tagcn", "multiply_first"),
          ("tagcn", "aggregate_first")]  # fmt: skip
# r, share of its halo that each device keeps, share of its workers' halos that each host keeps
CACHES = {
    "exact": (1, 0.0, 0.0),
    "features": (1, 1.0, 0.0),
    "features in both": (1, 0.3, 1.0),
    "whole": (INTERVAL, 1.0, 0.0),
    "part": (INTERVAL, 0.4, 0.0),
    "region": (INTERVAL, 0.0, 1.0),
    "both": (INTERVAL, 0.3, 1.0),
    "tiers": (INTERVAL, 0.3, 0.3),
}
STALE = [(kind, order, name) for kind, order in MODELS for name in ("whole", "part")]
STALE += [("gcn", "multiply_first", "region"), ("gcn", "aggregate_first", "both"), ("gcn", "multiply_first", "tiers"),
          ("gat", "multiply_first", "tiers"), ("sage", "aggregate_first", "tiers"),
          ("tagcn", "aggregate_first", "tiers")]  # fmt: skip
FIXED = [(kind, order) for kind, order in MODELS if order == "aggregate_first"]  # the others send no features
RESTING = [
    *STALE,
    *((kind, order, "exact") for kind, order in MODELS),
    *((*model, "features") for model in FIXED),
    ("gcn", "aggregate_first", "features in both"),
]
EVALUATED = ("exact", "features", "features in both", "whole", "part", "tiers")
OVERLAPPED = [("gcn", "multiply_first", "exact"), ("gcn", "aggregate_first", "features"),
              ("gcn", "aggregate_first", "part"), ("sage", "multiply_first", "part"),
              ("sage", "aggregate_first", "whole"), ("tagcn", "multiply_first", "exact"),
              ("sage", "aggregate_first", "tiers")]  # fmt: skip
POOLED = [("gcn", "multiply_first", "whole"), ("sage", "aggregate_first", "part"), ("gat", "multiply_first", "part"),
          ("gcn", "aggregate_first", "features"), ("tagcn", "multiply_first", "whole"),
          ("gcn", "multiply_first", "tiers"), ("sage", "aggregate_first", "both"),
          ("gcn", "aggregate_first", "features in both")]  # fmt: skip


class Case:
    """A model on a partitioned graph under a cache decision, and what its workers did."""

    def __init__(
        self, spec, kind, order, name, *, partitioner="ranges", overlap=False, interval=None, num_layers=3, **training
    ):
        graph = generate_sbm(spec)
        hidden = 64 if spec is LARGE else 8
        self.model = ModelSpec(kind=kind, num_layers=num_layers, hidden_channels=hidden, heads=2, num_hops=2)
        self.job = Job(graph=spec, model=self.model, training=TrainingSpec(**training))
        layers = (LayerDecision(op_order=order),) * num_layers
        self.program = build_program(
            self.model, layers, num_features=graph.num_features, num_classes=graph.num_classes, sparse_input=False
        )
        part = partition(graph.num_nodes, graph.edge_index, NUM_WORKERS, partitioner)
        self.halo = build_halo(aggregation_matrix(graph.num_nodes, graph.edge_index, kind), part, NUM_WORKERS)
        self.graph, self.cache = graph, NO_CACHE
        usual, device_share, region_share = CACHES[name]
        if device_share or region_share:
            halos = [block.halo for block in self.halo.blocks]
            members = [[rank for rank, its in enumerate(HOST_OF) if its == host] for host in (0, 1)]
            coverage = [len(np.unique(np.concatenate([halos[rank] for rank in ranks]))) for ranks in members]
            self.cache = decide_rows(
                self.halo,
                [int(device_share * len(halo)) for halo in halos],
                HOST_OF,
                [int(region_share * count) for count in coverage],
                refresh_interval=interval or usual,
            )
        self.decision = FullBatchDecision(
            partitioner=partitioner, target_weights=(1 / 3,) * 3, layers=layers, cache=self.cache, overlap=overlap
        )
        self.shapes = worker_shapes(graph, self.halo, num_hops=num_hops(self.model), sparse_features=False)

    def write(self, folder):
        """All that its workers need."""
        folder.mkdir()
        self.job.save(folder / "job.json")
        (folder / "decision.json").write_text(self.decision.model_dump_json())
        for rank in range(NUM_WORKERS):
            shard = cut_shard(self.graph, self.halo, rank, sparse_features=False, cache=self.cache, host_of=HOST_OF)
            shard.save(folder / f"worker_{rank}.npz")

    def read(self, folder):
        """What its workers wrote."""
        self.results = [dict(np.load(folder / f"result_{rank}.npz")) for rank in range(NUM_WORKERS)]

    def lowering(self, *, refresh):
        """What the planner says of an epoch of a kind."""
        counts = [HOST_OF.count(host) for host in (0, 1)]
        hosts = (HostSpec(name=f"h{n}", devices=(DeviceSpec(catalog="t4", count=c),)) for n, c in enumerate(counts))
        placement = resolve(Cluster(hosts=tuple(hosts)))
        costs = {name: OperatorCosts.of(profile) for name, profile in placement.profiles.items()}
        lowering = FullBatchLowering(
            self.program, placement, self.shapes, self.halo.send_counts(), costs, self.graph.num_classes, self.cache,
            refresh, self.decision.overlap,
        )  # fmt: skip
        lowering.lower()
        return lowering


@pytest.fixture(scope="module")
def cases(tmp_path_factory):
    """Every case of this file, trained in one launch of three workers."""
    folder = tmp_path_factory.mktemp("cache")
    made = {}
    # Steps so small that the weights stay where they are: stale rows and gradients are then the exact ones.
    resting = {"epochs": EPOCHS, "optimizer": "sgd", "learning_rate": 1e-30}
    for kind, order, name in RESTING:
        made[f"resting-{kind}-{order}-{name}"] = Case(SMALL, kind, order, name, **resting)
    for kind, order, name in OVERLAPPED:
        made[f"overlap-{kind}-{order}-{name}"] = Case(SMALL, kind, order, name, overlap=True, **resting)
    for kind, order, name in OVERLAPPED[:3]:
        made[f"pooled-overlap-{kind}-{order}-{name}"] = Case(
            LARGE, kind, order, name, overlap=True, epochs=INTERVAL + 1
        )
    for name in CACHES:
        made[f"moving-{name}"] = Case(SMALL, "gcn", "aggregate_first", name, epochs=EPOCHS)
    for name in EVALUATED:
        made[f"moving-evaluate-{name}"] = Case(SMALL, "gcn", "aggregate_first", name, epochs=EPOCHS)
    for kind, order, name in POOLED:
        made[f"pooled-{kind}-{order}-{name}"] = Case(LARGE, kind, order, name, epochs=INTERVAL + 1)
    for name in ("exact", "whole", "part"):
        made[f"learning-evaluate-{name}"] = Case(
            NOISY, "gcn", "multiply_first", name, partitioner="metis", interval=4, epochs=120
        )
    for name, step in product(("exact", "whole", "part"), STEPS):
        stepping = {"epochs": INTERVAL, "optimizer": "sgd", "learning_rate": step}
        made[f"stepping-{step}-{name}"] = Case(SMALL, "gcn", "aggregate_first", name, **stepping)
    # One layer and decaying weights: a loss with one minimum, which steps this long come near.
    convex = {"epochs": 150, "optimizer": "sgd", "learning_rate": 0.4, "weight_decay": 0.3}
    for name in ("exact", "whole"):
        made[f"converging-{name}"] = Case(SMALL, "gcn", "multiply_first", name, interval=4, num_layers=1, **convex)
    for name, case in made.items():
        case.write(folder / name)
    (folder / "cache_worker.py").write_text(WORKER)
    found = os.pathsep.join([str(folder), *filter(None, [os.environ.get("PYTHONPATH")])])
    launch("cache_worker", [str(folder)], hosts=[HostGroup(NUM_WORKERS)], folder=folder,
           environment={"PYTHONPATH": found})  # fmt: skip
    for name, case in made.items():
        case.read(folder / name)
    return made


@pytest.mark.parametrize(("kind", "order"), FIXED)
def test_kept_features_change_nothing(cases, kind, order):
    """At r = 1 losses and gradients are bit for bit those of the plain exchange."""
    exact, kept = (cases[f"resting-{kind}-{order}-{name}"].results for name in ("exact", "features"))
    for ours, theirs in zip(kept, exact, strict=True):
        np.testing.assert_array_equal(ours["loss"], theirs["loss"])
        np.testing.assert_array_equal(ours["grad"], theirs["grad"])


@pytest.mark.parametrize(("kind", "order", "name"), OVERLAPPED)
def test_overlap_changes_nothing(cases, kind, order, name):
    """Losses and gradients are bit for bit those of exchanges that are waited for."""
    plain, overlapped = (cases[f"{which}-{kind}-{order}-{name}"].results for which in ("resting", "overlap"))
    for ours, theirs in zip(overlapped, plain, strict=True):
        np.testing.assert_array_equal(ours["loss"], theirs["loss"])
        np.testing.assert_array_equal(ours["grad"], theirs["grad"])


def test_kept_features_change_nothing_as_weights_move(cases):
    """Nor while the model learns, be they kept by devices or hosts."""
    for how in ("moving", "moving-evaluate"):
        for name in ("features", "features in both"):
            for ours, theirs in zip(cases[f"{how}-{name}"].results, cases[f"{how}-exact"].results, strict=True):
                np.testing.assert_array_equal(ours["grad"], theirs["grad"])


@pytest.mark.parametrize(("kind", "order", "name"), STALE)
def test_where_weights_rest_reused_rows_and_gradients_are_exact(cases, kind, order, name):
    """Every epoch's loss and gradient is that of the exact model: right rows in the right places, both ways."""
    exact, stale = (cases[f"resting-{kind}-{order}-{which}"].results for which in ("exact", name))
    for ours, theirs in zip(stale, exact, strict=True):
        np.testing.assert_allclose(ours["loss"], theirs["loss"], rtol=1e-5)
        for epoch in range(EPOCHS):
            scale = np.abs(theirs["grad"][epoch]).max()
            np.testing.assert_allclose(ours["grad"][epoch], theirs["grad"][epoch], rtol=1e-4, atol=1e-5 * scale)


def test_where_rows_are_kept_changes_no_bit(cases):
    """On the devices, by the hosts, or some here and some there: all kept is all kept."""
    whole = cases["moving-whole"].results
    for name in ("region", "both"):
        for ours, theirs in zip(cases[f"moving-{name}"].results, whole, strict=True):
            np.testing.assert_array_equal(ours["loss"], theirs["loss"])
            np.testing.assert_array_equal(ours["grad"], theirs["grad"])


def test_rows_are_where_they_were_meant_to_be(cases):
    """So that the cases above say something: both tiers are used, and of three kinds of rows there are some."""
    caches = {name: cases[f"moving-{name}"].cache for name in CACHES}
    assert caches["whole"].region is caches["part"].region is None
    assert sum(caches["region"].num_rows) == 0 < min(caches["region"].region.num_rows)
    for name, has_fresh in (("both", False), ("tiers", True)):
        assert min(caches[name].num_rows) > 0 < min(caches[name].region.num_rows)
        assert caches[name].has_fresh == has_fresh


def test_a_region_is_filled_by_fewer_rows(cases):
    """Where all travel its rows come to a host once, and from one of its own workers not at all."""
    case = cases["resting-gcn-multiply_first-region"]
    sent, once = case.halo.send_counts(), np.array(case.cache.region.sent_counts)
    assert once[:2, :2].sum() == 0 < sent[:2, :2].sum()
    remote = np.unique(np.concatenate([block.halo[block.halo_owner == 2] for block in case.halo.blocks[:2]]))
    assert once[2].sum() == len(remote) < sent[2].sum()
    widths = sum(step.in_width for step in case.program.steps if step.op == "aggregate")
    for rank in range(NUM_WORKERS):
        assert case.results[rank]["sent"][0] == 4 * widths * (once[rank].sum() + sent[:, rank].sum())


def test_what_moves_is_stale_between_refreshes(cases):
    """The first reusing epoch already departs from the exact one, the first epoch does not."""
    exact = cases["moving-exact"].results[0]
    for name in ("whole", "part"):
        stale = cases[f"moving-{name}"].results[0]
        np.testing.assert_array_equal(stale["grad"][0], exact["grad"][0])
        assert abs(stale["loss"][1] / exact["loss"][1] - 1) > 1e-6


def test_evaluating_between_epochs_disturbs_nothing_kept(cases):
    """Losses are the same with an evaluation after every epoch, and without."""
    for name in EVALUATED:
        plain, evaluated = (cases[f"moving{kind}-{name}"].results[0] for kind in ("", "-evaluate"))
        np.testing.assert_array_equal(plain["loss"], evaluated["loss"])


@pytest.mark.parametrize(
    ("which", "kind", "order", "name"),
    [*(("resting", *entry) for entry in RESTING), *(("overlap", *entry) for entry in OVERLAPPED)],
)
def test_sent_bytes_and_tasks_are_the_planned_ones(cases, which, kind, order, name):
    """Counted in every epoch, to the byte, by its kind; and every worker ran exactly the planned tasks in order."""
    case = cases[f"{which}-{kind}-{order}-{name}"]
    planned = {refresh: case.lowering(refresh=refresh) for refresh in (True, False)}
    for rank, result in enumerate(case.results):
        for epoch in range(EPOCHS):
            lowering = planned[case.cache.refreshes(epoch)]
            assert result["sent"][epoch] == lowering.sent_bytes[rank]
            assert str(result["keys"][epoch]).split() == lowering.schedule.keys_of(rank)


def test_reusing_epochs_send_what_is_not_kept(cases):
    """All kept: nothing. Some kept: the rows left over, both ways, of every exchange."""
    whole, part = (cases[f"resting-gcn-multiply_first-{name}"] for name in ("whole", "part"))
    fresh = np.array(part.cache.fresh_counts)
    widths = sum(step.in_width for step in part.program.steps if step.op == "aggregate")
    for rank in range(NUM_WORKERS):
        assert whole.results[rank]["sent"][1] == 0 < whole.results[rank]["sent"][0]
        assert part.results[rank]["sent"][1] == 4 * widths * (fresh.sum(1)[rank] + fresh.sum(0)[rank])


@pytest.mark.parametrize(
    ("which", "kind", "order", "name"),
    [*(("pooled", *entry) for entry in POOLED), *(("pooled-overlap", *entry) for entry in OVERLAPPED[:3])],
)
def test_pool_holds_what_was_counted(cases, which, kind, order, name):
    """Kept rows and all other buffers of both kinds of epochs, to the byte, on every worker."""
    case = cases[f"{which}-{kind}-{order}-{name}"]
    for rank, result in enumerate(case.results):
        counted = epoch_buffers(
            case.program, case.shapes[rank], 16, NUM_WORKERS, case.cache, rank, overlap=case.decision.overlap
        )
        assert counted.live_bytes == 0
        assert result["held"] == counted.pooled_bytes > 0


@pytest.mark.parametrize("name", ["whole", "part"])
def test_the_error_vanishes_with_the_step(cases, name):
    """That of gradients by reused rows and gradients: far less where steps are a fourth, none right after a refresh."""
    errors = []
    for step in STEPS:
        exact, stale = (cases[f"stepping-{step}-{which}"].results[0]["grad"] for which in ("exact", name))
        np.testing.assert_array_equal(stale[0], exact[0])
        errors.append(np.linalg.norm(stale[1:] - exact[1:], axis=1) / np.linalg.norm(exact[1:], axis=1))
    assert errors[1].min() > 1e-5  # far above rounding
    assert (errors[0] / errors[1] > 2).all()  # about four, but for units that go on or off


@pytest.mark.parametrize("name", ["whole", "part"])
def test_stale_training_learns_as_well(cases, name):
    """With r = 4 a GCN classifies unseen vertices about as well as the exact one, far above chance."""
    exact, stale = (cases[f"learning-evaluate-{which}"].results[0] for which in ("exact", name))
    assert exact["score"] > 0.6
    assert abs(stale["score"] - exact["score"]) <= 0.03
    assert stale["loss"][-1] < 0.5 * stale["loss"][0]


def test_stale_training_ends_where_exact_training_does(cases):
    """With one minimum to find, reused rows and gradients lead to the exact one; on the way there they differ."""
    exact, stale = (cases[f"converging-{name}"].results[0] for name in ("exact", "whole"))
    assert abs(stale["loss"][2] / exact["loss"][2] - 1) > 1e-4
    assert abs(exact["loss"][-1] - exact["loss"][-2]) < 1e-6 < abs(exact["loss"][1] - exact["loss"][0])
    np.testing.assert_allclose(stale["loss"][-1], exact["loss"][-1], rtol=1e-5)
    scale = np.abs(exact["grad"][-1]).max()  # what weight decay holds in balance: it tells the weights apart
    np.testing.assert_allclose(stale["grad"][-1], exact["grad"][-1], atol=1e-3 * scale)
