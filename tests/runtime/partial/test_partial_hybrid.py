"""Partial reduce over workers that make some rows themselves: exact where K is 0 or weights rest, under any split."""

import os
from pathlib import Path

import numpy as np
import pytest

from gnnplan.planner.cluster import Cluster, DeviceSpec, HostSpec
from gnnplan.planner.generate import generate_sbm
from gnnplan.planner.job import Job, ModelSpec, PartialReducePin, PinnedDecisions, SbmGraph, TrainingSpec
from gnnplan.planner.lowering import lower_plan
from gnnplan.planner.partial.memory import mailbox_bytes, mailbox_bytes_of, sums_bytes
from gnnplan.planner.run import write_shards
from gnnplan.planner.weather.sections import sections_of
from gnnplan.profiles.agents import HostGroup
from gnnplan.profiles.catalog import catalog_profile
from gnnplan.profiles.machine import Link
from tests.planner.layered import make_plan
from tests.warm import launch

pytestmark = pytest.mark.distributed

HERE = str(Path(__file__).parent)
WORKER = """
import os, sys
from contextlib import closing
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import numpy as np
import torch
import torch.distributed as dist
from recorded import train_recorded

from gnnplan.planner.hybrid.staging import Staged
from gnnplan.planner.plan import Plan
from gnnplan.planner.shard import Shard
from gnnplan.profiles.launch import reporting_errors
from gnnplan.runtime.hybrid.trainer import HybridTrainer
from gnnplan.runtime.partial.hybrid import PartialHybridTrainer

folder, rank = Path(sys.argv[1]), int(os.environ["RANK"])
NOTHING_FROM, ALL_FROM, NAP_S = 6, 22, 0.3


def moving(trainer, staged):
    # Nothing from one epoch on, everything staged from another on, whatever the rates: worker 0 alone wants it.
    adjusting = trainer.adjusting
    look = adjusting.look

    def forced(record, exchanged, **given):
        choice = look(record, exchanged, **given)
        cached = adjusting.cached
        if rank == 0 and record.epoch >= NOTHING_FROM:
            cached = np.zeros_like(cached) if record.epoch < ALL_FROM else staged.may_cache
        is_other = bool((cached != adjusting.cached).any())
        return replace(choice, cached=cached, work=adjusting._work_of(cached), is_other=is_other)

    adjusting.look = forced
    take, change_from = adjusting.take, trainer.lateness.change_from

    def taken(choice):  # worker 2 sleeps right after the change, for longer than anybody would wait
        seconds = take(choice)
        trainer.sleeps_s[trainer.rounds.number + 1] = NAP_S if rank == 2 else 0.0
        return seconds

    def changed(number, longer_s):
        trainer.longer_s.append((adjusting.longer_s, longer_s))
        change_from(number, longer_s)

    trainer.longer_s, adjusting.take, trainer.lateness.change_from = [], taken, changed


def train(case):
    plan = Plan.load(case / "plan.json")
    shard, staged = Shard.load(case / f"worker_{rank}.npz"), Staged.load(case / f"staged_{rank}.npz")
    sleeps_s, device = np.load(case / "sleeps.npy")[rank], torch.device("cpu")
    if plan.layered.partial is None:
        made = HybridTrainer.of_plan(plan, shard, staged, device, sleeps_s)
    else:
        made = PartialHybridTrainer.of_plan(plan, shard, staged, device, timeout_s=30, sleeps_s=sleeps_s)
    dist.barrier()
    with closing(made) as trainer:
        if "moving" in case.name:
            moving(trainer, staged)
        found = train_recorded(trainer, plan.job.training.epochs)
        found["longer_s"] = getattr(trainer, "longer_s", [])
    np.savez(case / f"result_{rank}.npz", num_staged=int(staged.may_cache.sum()), **found)


with reporting_errors(folder, rank):
    torch.set_num_threads(1)
    dist.init_process_group("gloo", timeout=timedelta(seconds=30))
    for case in sorted(path for path in folder.iterdir() if (path / "plan.json").exists()):
        train(case)
    dist.destroy_process_group()
"""
NUM_WORKERS, K, EPOCHS = 3, 3, 40
GRAPH = SbmGraph(source="sbm", num_nodes=150, average_degree=6, num_classes=3, num_features=10, seed=2)
KINDS = ["gcn", "gat", "tagcn"]
RESTING = {"optimizer": "sgd", "learning_rate": 1e-30}
NAPS = {(2, 4): 0.3, (1, 14): 0.3, (2, 18): 0.3, (0, 34): 0.3, (1, 36): 0.3}
PLAIN = {"optimizer": "sgd", "learning_rate": 0.2}


def plan_of(folder, kind="gcn", *, partial=None, adjust="none", **training):
    """(plan, partition) of three workers behind a slow link, some of whose dependencies are cached."""
    profile = folder / "here.json"
    catalog_profile("rtx-3090").model_copy(update={"device_kind": "cpu", "num_threads": 1}).save(profile)
    host = HostSpec(name="here", devices=(DeviceSpec(profile=profile, count=NUM_WORKERS),))
    job = Job(
        graph=GRAPH,
        model=ModelSpec(kind=kind, num_layers=2, hidden_channels=8, heads=2, num_hops=2),
        training=TrainingSpec(**{"epochs": EPOCHS} | training),
        fidelity="stale",
        pin=PinnedDecisions(
            dependencies="hybrid",
            adjust=adjust,
            staged_bytes=8_000,
            partial_reduce=partial,
            partitioner="metis",
            balance="equal",
            op_order="aggregate_first" if kind == "tagcn" else "multiply_first",
            precompute=False,
        ),
    )
    cluster = Cluster(hosts=(host,), device_link=Link(bytes_per_s=1e6))
    return make_plan(job, cluster, generate_sbm(GRAPH))


@pytest.fixture(scope="module")
def cases(tmp_path_factory):
    """(results of every worker by case, plans), trained in one launch."""
    folder = tmp_path_factory.mktemp("partial_hybrid")
    zero, late, patient = (
        PartialReducePin(alpha=alpha, max_staleness=k, absent="reuse") for alpha, k in ((0.0, 0), (3.0, K), (1e6, K))
    )
    wanted = {}
    for kind in KINDS:
        wanted[f"exact-{kind}"] = ({"kind": kind}, {})
        wanted[f"zero-{kind}"] = ({"kind": kind, "partial": zero}, {(1, 4): 0.05})
        wanted[f"resting-{kind}"] = ({"kind": kind, "partial": late, **RESTING}, NAPS)
    wanted["moving-resting"] = ({"partial": late, "adjust": "online", **RESTING}, NAPS)
    wanted["moving-patient"] = ({"partial": patient, "adjust": "online", **PLAIN}, {(1, 8): 0.1})
    wanted["exact-patient"] = (PLAIN, {})
    plans = {}
    for name, (how, sleeps) in wanted.items():
        plans[name], partition = plan_of(folder, **how)
        plan = plans[name]
        (folder / name).mkdir()
        plan.save(folder / name / "plan.json")
        write_shards(plan, generate_sbm(GRAPH), partition, folder / name)
        sleeps_s = np.zeros((NUM_WORKERS, EPOCHS))
        for (rank, epoch), seconds in sleeps.items():
            sleeps_s[rank, epoch] = seconds
        np.save(folder / name / "sleeps.npy", sleeps_s)
    (folder / "partial_hybrid_worker.py").write_text(WORKER)
    path = os.pathsep.join([str(folder), HERE, os.environ.get("PYTHONPATH", "")])
    hosts = [HostGroup(NUM_WORKERS)]
    launch("partial_hybrid_worker", [str(folder)], hosts=hosts, folder=folder, environment={"PYTHONPATH": path})
    results = {
        name: [dict(np.load(folder / name / f"result_{rank}.npz")) for rank in range(NUM_WORKERS)] for name in wanted
    }
    return results, plans


@pytest.mark.parametrize("kind", KINDS)
def test_k_0_is_the_hybrid_engine_bit_for_bit(cases, kind):
    """Losses, gradients, weights, bytes and tasks, on every worker, though one of them sleeps."""
    results, plans = cases
    decided = plans[f"zero-{kind}"].layered.dependencies
    assert 0 < decided.num_cached < decided.num_dependencies
    for ours, theirs in zip(results[f"zero-{kind}"], results[f"exact-{kind}"], strict=True):
        for what in ("loss", "grad", "state", "epoch", "sent", "keys", "score"):
            np.testing.assert_array_equal(ours[what], theirs[what])


@pytest.mark.parametrize("name", [*(f"resting-{kind}" for kind in KINDS), "moving-resting"])
def test_where_weights_rest_what_is_old_is_exact(cases, name):
    """Every gradient is the exact one, with old rows, before and after other rows travel."""
    results, _ = cases
    kind = "gcn" if name == "moving-resting" else name.removeprefix("resting-")
    exact = results[f"exact-{kind}"][0]["grad"][0]
    assert max(result["oldest"][-8:].max() for result in results[name]) > 0
    for result in results[name]:
        for grad in result["grad"]:
            np.testing.assert_allclose(grad, exact, rtol=1e-4, atol=1e-5 * np.abs(exact).max())


def test_splits_change_after_steps_of_all(cases):
    """What one worker wants is set up after the first step that everybody takes part in; nobody misses the next."""
    results, _ = cases
    for name in ("moving-resting", "moving-patient"):
        first, *others = results[name]
        changed = np.flatnonzero(first["changed"])
        assert len(changed) == 2, name
        assert first["num_cached"][2] > 0
        assert first["num_cached"][changed].tolist() == [0, first["num_staged"]]
        for index in changed:
            assert first["members"][index] == NUM_WORKERS
            assert first["members"][index + 1] == NUM_WORKERS
            assert not first["oldest"][index + 1]
        after = [sum(result["sent"][result["epoch"] == first["epoch"][at] + 1][0] for result in results[name])
                 for at in changed]  # fmt: skip
        assert after[0] > after[1] > 0, "what worker 0 makes is not sent to it"
        for other in others:
            assert not other["changed"].any()
        alone_s, agreed_s = np.moveaxis([result["longer_s"] for result in results[name]], 2, 0)
        assert (agreed_s == alone_s.max(0)).all(), "T0 gets the most of all workers"
        assert len(np.unique(alone_s[:, 0])) > 1


def test_with_patience_any_splits_train_the_same(cases):
    """Where nobody is gone on without, losses are those of the fixed split, across both changes."""
    results, _ = cases
    for ours, theirs in zip(results["moving-patient"], results["exact-patient"], strict=True):
        assert ours["epoch"].tolist() == list(range(EPOCHS))
        assert not ours["oldest"].any()
        np.testing.assert_allclose(ours["loss"], theirs["loss"], rtol=1e-5)


@pytest.mark.parametrize("name", ["resting-gcn", "moving-resting", "moving-patient"])
def test_members_of_a_step_end_it_with_the_same_bits(cases, name):
    """Weights and optimizer state, whatever each of them makes."""
    by_number = {}
    for result in cases[0][name]:
        for number, state in zip(result["epoch"].tolist(), result["state"], strict=True):
            by_number.setdefault(number, []).append(state)
    assert sorted(by_number) == list(range(EPOCHS))
    for states in by_number.values():
        assert all(np.array_equal(state, states[0]) for state in states)


def test_mailboxes_have_the_rows_that_travel(cases):
    """Room for fetched rows alone where the split is fixed, for the whole halo where it is not; less than of all."""
    _, plans = cases
    fixed, moving = plans["resting-gcn"], plans["moving-resting"]
    for rank, shape in enumerate(fixed.shapes):
        sums = sums_bytes(fixed.program(), fixed.decision.partial.max_staleness, EPOCHS)
        assert 0 < mailbox_bytes_of(fixed, rank) - sums < mailbox_bytes(fixed.program(), shape)
        steps = [step for step in moving.program().steps if step.op == "aggregate"]
        numbers = sum(step.in_width * (1 if step.constant else 2) for step in steps)
        assert mailbox_bytes_of(moving, rank) - sums == 2 * 4 * numbers * (shape.num_halo + shape.num_sent)


def test_no_section_ends_where_no_rows_travel(tmp_path):
    """All cached: an epoch's workers meet at the reduction alone."""
    plan, _ = plan_of(tmp_path)
    everything = plan.job.model_copy(
        update={"pin": plan.job.pin.model_copy(update={"dependencies": "cache", "staged_bytes": None})}
    )
    host = HostSpec(name="here", devices=(DeviceSpec(profile=tmp_path / "here.json", count=NUM_WORKERS),))
    cached, _ = make_plan(everything, Cluster(hosts=(host,)), generate_sbm(GRAPH))
    sections = sections_of(lower_plan(cached))
    assert len(sections.transfer_s) == 1
    assert sections.compute_s.shape == (NUM_WORKERS, 2)
