"""Plans under weather run by their programs: workers sleep before each half, and sleeping changes no number."""

import numpy as np
import pytest
import torch

from gnnplan.planner import api
from gnnplan.planner.cluster import Cluster, DeviceSpec, HostSpec
from gnnplan.planner.forecast.sleeps import planned_sleeps_s
from gnnplan.planner.graph_spec import SbmGraph
from gnnplan.planner.job import Job
from gnnplan.planner.job_pins import PinnedDecisions
from gnnplan.planner.loaders import load_graph
from gnnplan.planner.model_spec import ModelSpec
from gnnplan.planner.plan_files import load_partition
from gnnplan.planner.program.halves import half_begins
from gnnplan.planner.program_shard import FIRST_WEIGHTS, ProgramShard
from gnnplan.planner.run import write_shards
from gnnplan.planner.training_spec import TrainingSpec
from gnnplan.planner.weather.model import SleepWeather
from gnnplan.profiles.catalog import catalog_profile
from gnnplan.profiles.machine import Link
from gnnplan.runtime.net import read_weights
from gnnplan.runtime.program_trainer import ProgramTrainer
from tests import warm

pytestmark = pytest.mark.distributed

GRAPH = SbmGraph(source="sbm", num_nodes=200, average_degree=8, num_classes=4, num_features=12, feature_signal=3.0)
EPOCHS, INTERVAL = 9, 3
SLEEPS = SleepWeather(probability=0.4, sleep_s=0.1, seed=3)


@pytest.fixture(scope="module")
def cluster(tmp_path_factory):
    """Two workers on one host whose link is so slow that keeping rows pays."""
    path = tmp_path_factory.mktemp("profile") / "here.json"
    catalog_profile("rtx-3090").model_copy(update={"device_kind": "cpu", "num_threads": 1}).save(path)
    host = HostSpec(name="here", devices=(DeviceSpec(profile=path, count=2),))
    return Cluster(hosts=(host,), device_link=Link(bytes_per_s=1e6))


def planned(cluster, folder, weather, **pins):
    """A plan of a GCN in a folder."""
    pin = PinnedDecisions(
        dependencies="communicate", op_order="multiply_first", precompute=False, balance="speed", **pins
    )
    training = TrainingSpec(epochs=EPOCHS, weather=weather, traced_epochs=EPOCHS)
    job = Job(graph=GRAPH, model=ModelSpec(hidden_channels=8), training=training, fidelity="stale", pin=pin)
    return api.plan(job, cluster, folder / "plan.json")


@pytest.fixture(scope="module", params=[False, True], ids=["plain", "overlap"])
def runs(request, cluster, tmp_path_factory):
    """(plan, measured, weights) of the same training with a refresh interval, in fair weather and under sleeps."""
    found = []
    for name, weather in (("fair", None), ("sleeps", SLEEPS)):
        folder = tmp_path_factory.mktemp(name)
        plan = planned(cluster, folder, weather, refresh_interval=INTERVAL, overlap=request.param, num_workers=2)
        with warm.runs():
            measured = api.run(folder / "plan.json", folder / "run", timeout_s=60)
        found.append((plan, measured, torch.load(folder / "run" / "model.pt", weights_only=True)))
    return found


@pytest.mark.long
def test_sleeps_change_no_number(runs):
    """Losses and weights are those of fair weather bit for bit, with rows that are sent in every third epoch."""
    (fair, in_calm, weights), (plan, in_weather, found) = runs
    assert plan.cycle == fair.cycle is not None
    assert plan.fidelity == f"stale({INTERVAL})"
    assert all(planned_sleeps_s(plan, worker).any() for worker in range(2))
    assert in_weather.losses == in_calm.losses
    assert all(torch.equal(found[name], weight) for name, weight in weights.items())


def test_tasks_are_those_of_fair_weather(runs):
    """A sleep is no task of the trace, and lies in none that a worker does alone."""
    (_, in_calm, _), (plan, in_weather, _) = runs
    tasks = [{(span.task, span.worker, span.epoch) for span in trace.spans} for trace in (in_calm, in_weather)]
    assert tasks[0] == tasks[1]
    slept = np.stack([planned_sleeps_s(plan, worker) for worker in range(2)])
    for worker, epoch in np.argwhere(slept > 0).tolist():
        spans = [s for s in in_weather.spans if (s.worker, s.epoch) == (worker, epoch)]
        backward = half_begins(plan.cycle.cycle().programs[("train", "train/reuse")[epoch % INTERVAL > 0]])[1]
        begin_s = next(span.start_s for span in spans if span.task == backward)
        loss_s = next(span.end_s for span in spans if span.task == "loss")
        assert begin_s - loss_s >= slept[worker, epoch] / 2


def test_a_refresh_interval_is_simulated(runs):
    """The plan's figures are those that its file alone gives; rows are at most an interval old."""
    (fair, *_), (plan, *_) = runs
    assert api.simulate_weather(plan, SLEEPS) == plan.prediction.weather
    assert plan.prediction.weather.max_age == INTERVAL - 1
    assert plan.prediction.weather.delay_s > 0
    assert fair.prediction.weather is None
    assert plan.prediction.epoch_s == fair.prediction.epoch_s


def test_half_of_a_sleep_lies_before_each_half(cluster, tmp_path, monkeypatch):
    """Before the first operator and right behind the loss, in the epochs that are for it."""
    plan = planned(cluster, tmp_path, SLEEPS, num_workers=1)
    graph, partition = load_graph(GRAPH), load_partition(plan, tmp_path / "plan.json")
    write_shards(plan, graph, partition, tmp_path / "shards")
    shard = ProgramShard.load(tmp_path / "shards" / "worker_0.npz")
    trainer = ProgramTrainer(plan, shard, 0, torch.device("cpu"), read_weights(tmp_path / "shards" / FIRST_WEIGHTS))
    trainer.sleeps_s = np.array([0.0, 3.0, 0.0])
    slept = []
    monkeypatch.setattr("time.sleep", lambda seconds: slept.append((seconds, [s[0] for s in trainer.recorder.spans])))
    for epoch in range(3):
        trainer.train_epoch(epoch, traced=True)
    assert [seconds for seconds, _ in slept] == [1.5, 1.5]
    assert [tasks[-1:] for _, tasks in slept] == [[], ["loss"]]
