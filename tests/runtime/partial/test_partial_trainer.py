"""Training under partial reduce among real workers: exact where K is 0, bounded and in step where it is not."""

import os
from pathlib import Path

import numpy as np
import pytest

from gnnplan.planner.cluster import Cluster, DeviceSpec, HostSpec
from gnnplan.planner.generate import generate_sbm
from gnnplan.planner.graph_spec import SbmGraph
from gnnplan.planner.job import Job
from gnnplan.planner.job_pins import PartialReducePin, PinnedDecisions
from gnnplan.planner.model_spec import ModelSpec
from gnnplan.planner.partial.rule import WARM_UP_EPOCHS
from gnnplan.planner.run import write_shards
from gnnplan.planner.search import make_plan
from gnnplan.planner.training_spec import TrainingSpec
from gnnplan.profiles.agents import HostGroup
from gnnplan.profiles.machine import Link
from tests.warm import launch

pytestmark = pytest.mark.distributed

HERE = str(Path(__file__).parent)
WORKER = """
import os, signal, subprocess, sys, time
from contextlib import closing
from datetime import timedelta
from pathlib import Path

import numpy as np
import torch
import torch.distributed as dist
from recorded import train_recorded

from gnnplan.planner.plan import Plan
from gnnplan.planner.program_shard import FIRST_WEIGHTS, ProgramShard
from gnnplan.profiles.launch import reporting_errors
from gnnplan.runtime.net import read_weights
from gnnplan.runtime.partial.training import PartialTrainer
from gnnplan.runtime.program_trainer import ProgramTrainer

folder, rank = Path(sys.argv[1]), int(os.environ["RANK"])
EVENT_EPOCH = 3  # the first after the warm-up: every worker begins it
WENT_ON = folder / "went_on"


def stop(epoch):
    if epoch != EVENT_EPOCH:
        return
    (folder / f"begun_{rank}").touch()
    if rank == 2:
        # Not before the others have all that they wait for of the step before: threads may still be sending it.
        end_s = time.monotonic() + 20
        while not all((folder / f"begun_{other}").exists() for other in (0, 1)) and time.monotonic() < end_s:
            time.sleep(0.005)
        # Until it is stopped, and worker 0 has gone on without it, 20 s at most: a CONT before the STOP wakes nobody.
        both = f"grep -q '^State:.T' /proc/{os.getpid()}/status && [ -e {WENT_ON} ]"
        wait = f"n=0; until {both} || [ $n -ge 400 ]; do sleep 0.05; n=$((n + 1)); done"
        subprocess.Popen(["sh", "-c", f"{wait}; kill -CONT {os.getpid()}"])
        os.kill(os.getpid(), signal.SIGSTOP)


def tell(record):
    if rank == 0 and record.epoch == EVENT_EPOCH:
        WENT_ON.touch()


def train(case):
    plan, shard = Plan.load(case / "plan.json"), ProgramShard.load(case / f"worker_{rank}.npz")
    device, weights = torch.device("cpu"), read_weights(case / FIRST_WEIGHTS)
    if plan.partial is None:
        made = ProgramTrainer(plan, shard, rank, device, weights)
    else:
        made = PartialTrainer(plan, shard, rank, device, weights, timeout_s=30)
    made.sleeps_s = np.load(case / "sleeps.npy")[rank]
    dist.barrier()
    with closing(made) as trainer:
        events = {"before": stop, "after": tell} if case.name == "stopped" else {}
        found = train_recorded(trainer, plan.job.training.epochs, **events)
        np.savez(case / f"result_{rank}.npz", **found)


with reporting_errors(folder, rank):
    torch.set_num_threads(1)
    dist.init_process_group("gloo", timeout=timedelta(seconds=30))
    for case in sorted(path for path in folder.iterdir() if (path / "plan.json").exists()):
        train(case)
    dist.destroy_process_group()
"""
NUM_WORKERS, K, EPOCHS, EVENT_EPOCH, CLOSING, AVERAGED = 3, 3, 14, 3, 4, 5
SMALL = SbmGraph(source="sbm", num_nodes=150, average_degree=6, num_classes=3, num_features=10, seed=2)
NOISY = SbmGraph(
    source="sbm", num_nodes=1500, average_degree=10, num_classes=5, num_features=24, feature_signal=1.0, seed=4
)
MODELS = [
    ("gcn", "multiply_first"),
    ("gat", "multiply_first"),
    ("sage", "aggregate_first"),
    ("tagcn", "multiply_first"),
]
# What goes beside it.
BESIDE = {
    "gcn-overlapped": ("gcn", "multiply_first", {"overlap": True}),
    "gat-overlapped": ("gat", "multiply_first", {"overlap": True}),
    "sage-kept": ("sage", "aggregate_first", {"feature_cache": True}),
    "gcn-refreshed": ("gcn", "multiply_first", {"refresh_interval": 3}),
    "gcn-once": ("gcn", "aggregate_first", {"precompute": True}),
}
EACH = [*(kind for kind, _ in MODELS), *BESIDE]
LATE = [
    "late",
    "late-sgd",
    "late-scaled",
    "late-refreshed",
    "alone",
    "alone-scaled",
    "late-at-the-end",
    "closing",
    "late-averaged",
    "stopped",
    "learning-stale",
]


CLUSTER = Cluster(hosts=(HostSpec(name="a", devices=(DeviceSpec(catalog="t4", count=NUM_WORKERS),)),))

SLOW = CLUSTER.model_copy(update={"device_link": Link(bytes_per_s=1e6)})


class Case:
    """A plan of a model on a partitioned graph, and what its workers did."""

    def __init__(self, spec, kind="gcn", order="multiply_first", *, partial=None, sleeps=None, pins=None, **job):
        names = PartialReducePin.model_fields.keys() & job.keys()
        waiting = {"absent": "reuse"} | {name: job.pop(name) for name in names}
        waiting |= dict(zip(("alpha", "max_staleness"), partial or ()))
        pin = PinnedDecisions(
            dependencies="communicate",
            num_workers=NUM_WORKERS,
            partitioner="metis",
            balance="equal",
            op_order=None if kind == "gat" else order,
            partial_reduce=PartialReducePin(**waiting) if partial else None,
            **{"feature_cache": False, "overlap": False, "precompute": False} | (pins or {}),
        )
        model = ModelSpec(kind=kind, num_layers=2, hidden_channels=8, heads=2, num_hops=2)
        training = TrainingSpec(**{"epochs": EPOCHS} | job)
        self.job = Job(graph=spec, model=model, training=training, fidelity="stale", pin=pin)
        self.sleeps_s = np.zeros((NUM_WORKERS, self.job.training.epochs))
        for (rank, epoch), seconds in (sleeps or {}).items():
            self.sleeps_s[rank, epoch] = seconds

    def write(self, folder):
        """All that its workers need."""
        folder.mkdir()
        graph = generate_sbm(self.job.graph)
        # Where the link is slow, keeping rows pays.
        cluster = CLUSTER if self.job.pin.refresh_interval == 1 else SLOW
        self.plan, partition = make_plan(self.job, cluster, graph)
        self.plan.save(folder / "plan.json")
        np.save(folder / "sleeps.npy", self.sleeps_s)
        write_shards(self.plan, graph, partition, folder)

    def read(self, folder):
        """What its workers wrote."""
        self.results = [dict(np.load(folder / f"result_{rank}.npz")) for rank in range(NUM_WORKERS)]

    def states(self):
        """By round, the state of every worker that took part in it."""
        found = {}
        for rank, result in enumerate(self.results):
            for number, state in zip(result["epoch"].tolist(), result["state"], strict=True):
                found.setdefault(number, {})[rank] = state
        return found


@pytest.fixture(scope="module")
def cases(tmp_path_factory):
    """Every case, trained in one launch of three workers."""
    folder = tmp_path_factory.mktemp("partial")
    made = {}
    for kind, order in MODELS:
        made[f"exact-{kind}"] = Case(SMALL, kind, order)
        made[f"zero-{kind}"] = Case(SMALL, kind, order, partial=(0.0, 0), sleeps={(1, 4): 0.05})
    for name, (kind, order, pins) in BESIDE.items():
        made[f"exact-{name}"] = Case(SMALL, kind, order, pins=pins)
        made[f"zero-{name}"] = Case(SMALL, kind, order, partial=(0.0, 0), sleeps={(1, 4): 0.05}, pins=pins)
    # Steps so small that the weights stay where they are: whatever is old is then what is new.
    resting = {"epochs": EPOCHS, "optimizer": "sgd", "learning_rate": 1e-30}
    naps = {(2, EVENT_EPOCH): 0.2, (1, 8): 0.2, (0, 10): 0.2}
    for kind, order in MODELS:
        made[f"resting-{kind}"] = Case(SMALL, kind, order, partial=(0.5, K), sleeps=naps, **resting)
    for name, (kind, order, pins) in BESIDE.items():
        made[f"resting-{name}"] = Case(SMALL, kind, order, partial=(0.5, K), sleeps=naps, pins=pins, **resting)
    made["patient"] = Case(SMALL, partial=(1e6, K))
    made["patient-averaged"] = Case(SMALL, partial=(1e6, K), average_epochs=AVERAGED)
    lates = {(2, EVENT_EPOCH): 2.0, (1, EPOCHS - AVERAGED): 1.0}
    made["late-averaged"] = Case(SMALL, partial=(0.5, K), average_epochs=AVERAGED, sleeps=lates)
    made["late"] = Case(SMALL, partial=(0.5, K), sleeps={(2, EVENT_EPOCH): 2.0})
    made["late-refreshed"] = Case(
        SMALL, partial=(0.5, K), sleeps={(2, EVENT_EPOCH): 2.0, (1, 7): 1.0}, pins={"refresh_interval": 3}
    )
    made["late-sgd"] = Case(SMALL, partial=(0.5, K), sleeps={(2, EVENT_EPOCH): 2.0}, optimizer="sgd")
    made["late-scaled"] = Case(SMALL, partial=(0.5, K), absent="scale", sleeps={(2, EVENT_EPOCH): 2.0})
    both = {(1, EVENT_EPOCH): 2.0, (2, EVENT_EPOCH): 2.0}
    made["alone"] = Case(SMALL, partial=(0.5, K), min_group=1, sleeps=both)
    made["alone-scaled"] = Case(SMALL, partial=(0.5, K), min_group=1, absent="scale", sleeps=both)
    made["late-at-the-end"] = Case(SMALL, partial=(0.5, K), sleeps={(2, EPOCHS - 3): 2.0})
    before = EPOCHS - CLOSING - 2
    made["closing"] = Case(
        SMALL, partial=(0.5, K), closing_epochs=CLOSING, sleeps={(2, before): 2.0, (1, EPOCHS - 2): 0.3}
    )
    made["stopped"] = Case(SMALL, partial=(0.5, K))
    rng = np.random.default_rng(0)
    often = {(rank, epoch): 0.05 for rank in range(NUM_WORKERS) for epoch in range(3, 120) if rng.random() < 0.1}
    made["learning"] = Case(NOISY, epochs=120)
    made["learning-stale"] = Case(NOISY, partial=(0.5, K), absent="scale", sleeps=often, epochs=120)
    for name, case in made.items():
        case.write(folder / name)
    (folder / "partial_worker.py").write_text(WORKER)
    path = os.pathsep.join([str(folder), HERE, os.environ.get("PYTHONPATH", "")])
    hosts = [HostGroup(NUM_WORKERS)]
    launch("partial_worker", [str(folder)], hosts=hosts, folder=folder, environment={"PYTHONPATH": path})
    for name, case in made.items():
        case.read(folder / name)
    return made


@pytest.mark.long
@pytest.mark.parametrize("kind", EACH)
def test_k_0_is_halo_exchange_bit_for_bit(cases, kind):
    """Losses, gradients, weights and optimizer state, on every worker, though one of them sleeps."""
    for ours, theirs in zip(cases[f"zero-{kind}"].results, cases[f"exact-{kind}"].results, strict=True):
        for what in ("loss", "grad", "state", "epoch", "sent", "keys", "score"):
            np.testing.assert_array_equal(ours[what], theirs[what])
        assert not ours["oldest"].any()


def test_what_goes_beside_it_does(cases):
    """Plans that are said to overlap, to keep features and to aggregate them once do so, beside partial reduce."""
    beside = {"gcn-overlapped": "overlap", "sage-kept": "feature_cache", "gcn-once": "first_aggregation"}
    beside["gcn-refreshed"] = "joint_cache"
    for name, wanted in beside.items():
        names = {chosen.technique for chosen in cases[f"resting-{name}"].plan.choices}
        assert {wanted, "partial_reduce"} <= names


@pytest.mark.parametrize("kind", EACH)
def test_where_weights_rest_what_is_old_is_exact(cases, kind):
    """Every gradient is that of halo exchange: right rows in right places, nothing lost or counted twice."""
    exact, resting = cases[f"exact-{kind}"].results[0]["grad"][0], cases[f"resting-{kind}"].results
    assert max(result["oldest"].max() for result in resting) > 0
    for result in resting:
        for grad in result["grad"]:
            np.testing.assert_allclose(grad, exact, rtol=1e-4, atol=1e-5 * np.abs(exact).max())


def test_with_patience_every_step_is_everybodys(cases):
    """Where nobody is ever gone on without, the numbers are halo exchange's but for the order of sums."""
    for ours, theirs in zip(cases["patient"].results, cases["exact-gcn"].results, strict=True):
        assert ours["epoch"].tolist() == list(range(EPOCHS))
        assert set(ours["members"].tolist()) == {NUM_WORKERS}
        assert not ours["oldest"].any()
        np.testing.assert_allclose(ours["loss"], theirs["loss"], rtol=1e-5)
        np.testing.assert_array_equal(ours["keys"], theirs["keys"])


@pytest.mark.parametrize("name", ["late", "late-sgd", "late-scaled", "stopped"])
def test_others_go_on_without_a_worker_that_sleeps_or_is_stopped(cases, name):
    """They step without it and use its old rows; it joins them later, and the run ends with all of them."""
    results = cases[name].results
    sleeper = dict(zip(results[2]["begun"].tolist(), results[2]["epoch"].tolist(), strict=True))
    assert sleeper[EVENT_EPOCH] > EVENT_EPOCH
    assert EVENT_EPOCH not in results[2]["epoch"]
    for other in results[:2]:
        assert other["members"][other["epoch"] == EVENT_EPOCH].tolist() == [2]
        assert other["oldest"].max() >= 1
    for result in results:
        assert result["epoch"][-1] == EPOCHS - 1
        assert result["members"][-1] == NUM_WORKERS


@pytest.mark.parametrize("name", ["alone", "alone-scaled"])
def test_a_worker_alone_goes_on_where_it_may(cases, name):
    """Without both others, who take its steps when they come back."""
    first = cases[name].results[0]
    assert first["members"][first["epoch"] == EVENT_EPOCH].tolist() == [1]
    assert first["members"][-1] == NUM_WORKERS


def test_a_run_ends_with_the_mean_of_its_last_weights(cases):
    """Where every step is everybody's: with that of halo exchange, whose weights it had until then."""
    for ours, theirs in zip(cases["patient-averaged"].results, cases["exact-gcn"].results, strict=True):
        num_weights = ours["grad"].shape[1]
        weights, expected = ours["state"][:, :num_weights], theirs["state"][:, :num_weights]
        np.testing.assert_allclose(weights[:-1], expected[:-1], rtol=1e-3, atol=1e-5)
        np.testing.assert_allclose(weights[-1], expected[-AVERAGED:].mean(0), rtol=1e-3, atol=1e-5)
        assert np.abs(weights[-1] - expected[-1]).max() > 1e-3


def test_in_the_closing_all_wait_for_all(cases):
    """Who is missing when it begins is waited for, and nobody is gone on without or sends old rows after that."""
    results = cases["closing"].results
    closing_from = EPOCHS - CLOSING
    assert results[0]["members"][results[0]["epoch"] < closing_from].min() == 2
    for result in results:
        assert result["epoch"][-CLOSING:].tolist() == list(range(closing_from, EPOCHS))
        assert set(result["members"][-CLOSING:].tolist()) == {NUM_WORKERS}
        assert not result["oldest"][1 - CLOSING :].any()


def test_all_begin_the_epochs_that_refresh_kept_rows(cases):
    """Whoever lags behind is waited for before each, and gone on without in between."""
    case = cases["late-refreshed"]
    assert case.plan.refresh_interval == 3
    for result in case.results:
        assert set(range(0, EPOCHS, 3)) <= set(result["begun"].tolist())
        assert set(result["members"][result["epoch"] % 3 == 2].tolist()) == {NUM_WORKERS}
    assert case.results[0]["members"].min() == NUM_WORKERS - 1


@pytest.mark.parametrize("name", LATE)
def test_nothing_is_older_than_k_and_nobody_missing_longer(cases, name):
    """Rows, gradients and absences; warm-up and last step are everybody's."""
    case = cases[name]
    last = case.job.training.epochs - 1
    for result in case.results:
        assert result["oldest"].max() <= K
        assert (result["epoch"] - result["begun"]).max() <= K
        assert np.diff(result["epoch"]).max() <= K + 1
        assert {*range(WARM_UP_EPOCHS), last} <= set(result["epoch"].tolist())


@pytest.mark.parametrize("name", ["patient", *LATE])
def test_members_of_a_step_end_it_with_the_same_bits(cases, name):
    """Weights and optimizer state; so after a step of all workers all replicas are equal."""
    case = cases[name]
    states = case.states()
    assert sorted(states) == list(range(case.job.training.epochs))
    for number, by_worker in states.items():
        first = next(iter(by_worker.values()))
        assert all(np.array_equal(state, first) for state in by_worker.values())
        counted = {int(r["members"][r["epoch"] == number][0]) for r in case.results if number in r["epoch"]}
        assert counted == {len(by_worker)}
    assert any(len(by_worker) < NUM_WORKERS for by_worker in states.values()) == (name != "patient")


def test_stale_training_learns_as_well(cases):
    """Under sleeps a GCN classifies unseen vertices about as well as the exact one, far above chance."""
    exact, stale = (cases[name].results[0] for name in ("learning", "learning-stale"))
    assert exact["score"] > 0.6
    assert abs(stale["score"] - exact["score"]) <= 0.05
    assert stale["loss"][-1] < 0.5 * stale["loss"][0]
