"""The worker process: which epochs it traces, the memory it reports, the trace rank 0 writes."""

from contextlib import nullcontext
from itertools import count, pairwise
from types import SimpleNamespace

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from gnnplan.planner.training_spec import TrainingSpec
from gnnplan.profiles.errors import UserError
from gnnplan.runtime import evaluations, worker
from gnnplan.runtime.device import pick_device
from gnnplan.runtime.epoch_record import EpochRecord
from gnnplan.runtime.evaluations import Evaluations
from gnnplan.runtime.gather import gather
from gnnplan.runtime.peak import peak_memory_bytes
from gnnplan.runtime.worker import MAX_TRACED_EPOCHS, traced_epochs

CPU = torch.device("cpu")


@given(st.integers(1, 3000))
def test_traced_epochs_are_few_spread_and_warm(epochs):
    """At most ten distinct epochs, ascending, after two warm-up epochs where there are more, the last included."""
    traced = traced_epochs(epochs)
    assert traced == sorted(set(traced))
    assert 1 <= len(traced) <= MAX_TRACED_EPOCHS
    assert traced[0] == min(2, epochs - 1)
    assert traced[-1] == epochs - 1


@given(st.integers(12, 3000))
def test_traced_epochs_are_evenly_spread(epochs):
    """With ten epochs to choose and more, all ten are used and the gaps differ by one at most."""
    traced = traced_epochs(epochs)
    assert len(traced) == MAX_TRACED_EPOCHS
    gaps = {later - earlier for earlier, later in pairwise(traced)}
    assert max(gaps) - min(gaps) <= 1


def test_peak_memory_never_falls():
    """The CPU figure is a high-water mark in bytes: it holds an allocation after it is freed."""
    before = peak_memory_bytes(CPU)
    block = torch.ones(2**24)
    size = block.nbytes
    del block
    after = peak_memory_bytes(CPU)
    assert after >= before > 2**26
    assert after > size


def test_the_peak_of_the_setup_counts_on_a_gpu_too(tmp_path, monkeypatch):
    """As planned: what precomputing takes may be more than what training does."""
    counted, gathered = [100], []

    def run_epochs(*_):
        counted.append(60)
        return []

    trainer = SimpleNamespace(net=torch.nn.Linear(1, 1), close=lambda: None, evaluate=lambda: {"val": 0.5})
    trainer.metric = "accuracy"
    training = TrainingSpec(epochs=3, traced_epochs=1)
    plan = SimpleNamespace(
        job=SimpleNamespace(training=training),
        cycle=SimpleNamespace(order=("train",), values={}),
        num_workers=1,
        partial=None,
        mini_batch=None,
    )
    monkeypatch.setattr(torch.cuda, "max_memory_allocated", lambda _: max(counted))
    monkeypatch.setattr(torch.cuda, "reset_peak_memory_stats", lambda _: counted.clear())
    monkeypatch.setattr(worker, "_trainer_of", lambda *_: trainer)
    monkeypatch.setattr(worker, "_run_epochs", run_epochs)
    monkeypatch.setattr(worker, "keeping", lambda *_, **__: nullcontext(SimpleNamespace(epoch=0, losses_before=())))
    monkeypatch.setattr(
        worker,
        "measured_trace",
        lambda _, figures, *__: gathered.extend(figures) or SimpleNamespace(save=lambda _: None),
    )
    worker._train(plan, tmp_path, 0, torch.device("cuda"), worker.RunOptions(), None)
    assert [figures["peak_bytes"] for figures in gathered] == [100]


def test_accuracies_on_the_way_are_told(monkeypatch):
    """The last one known in every event; the epochs after an evaluation know how long all of them took."""
    events = []
    ticks = count()  # seconds: each look at the clock takes one
    monkeypatch.setattr(worker, "emit", events.append)
    monkeypatch.setattr(evaluations.time, "monotonic", lambda: float(next(ticks)))

    def train_epoch(epoch, *, traced):
        return EpochRecord(epoch, float(next(ticks)), float(next(ticks)), loss=1.0)

    trainer = SimpleNamespace(net=torch.nn.Linear(1, 1), train_epoch=train_epoch, evaluate=lambda: {"val": 0.5})
    trainer.metric = "accuracy"
    seen = Evaluations(trainer, CPU, frozenset({1}))
    keeper = SimpleNamespace(epoch=0, num_epochs=4, held_s=0.0, in_step=True, after=lambda *_: None)
    records = worker._run_epochs(trainer, keeper, set(), 0, seen)
    assert [record.paused_s for record in records] == [0.0, 0.0, 1.0, 1.0]
    assert [event["accuracy"] for event in events] == [{}, {"val": 0.5}, {"val": 0.5}, {"val": 0.5}]
    assert [event["epoch_s"] for event in events[1:]] == [2.0, 3.0, 2.0]


def test_figures_of_a_single_worker_need_no_group():
    """Without a process group, gathering is the worker's own figures."""
    assert gather({"a": [1, 2.5]}) == [{"a": [1, 2.5]}]


def plan_on(device_kind, device_index=0):
    """A plan of one worker on a device."""
    place = SimpleNamespace(profile="p", host="here", device_index=device_index)
    placement = SimpleNamespace(workers=(place,), profiles={"p": SimpleNamespace(device_kind=device_kind)})
    return SimpleNamespace(placement=placement)


def test_a_cpu_plan_runs_on_the_cpu(monkeypatch):
    """Threads come from the environment."""
    asked = []
    monkeypatch.setattr(torch, "set_num_threads", asked.append)
    for key, value in {"RANK": "0", "LOCAL_RANK": "0", "OMP_NUM_THREADS": "3"}.items():
        monkeypatch.setenv(key, value)
    assert pick_device(plan_on("cpu")).type == "cpu"
    assert asked == [3]


@pytest.mark.parametrize("num_devices", [0, 2])
def test_a_gpu_plan_is_refused_where_its_device_is_not(monkeypatch, num_devices):
    """It never trains on the CPU instead, nor two workers on one device."""
    monkeypatch.setenv("RANK", "0")
    monkeypatch.setattr(torch.cuda, "device_count", lambda: num_devices)
    with pytest.raises(UserError, match=f"CUDA device 2 of here, which has {num_devices}"):
        pick_device(plan_on("cuda", device_index=2))


def test_a_gpu_plan_takes_the_device_that_was_planned(monkeypatch):
    """By its index on the host, whatever the local rank: a plan may leave devices out."""
    chosen = []
    for key, value in {"RANK": "0", "LOCAL_RANK": "0"}.items():
        monkeypatch.setenv(key, value)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 4)
    monkeypatch.setattr(torch.cuda, "set_device", chosen.append)
    assert pick_device(plan_on("cuda", device_index=2)) == torch.device("cuda", 2)
    assert chosen == [torch.device("cuda", 2)]


@given(st.integers(1, 400), st.integers(2, 9))
def test_both_kinds_of_epochs_are_traced(epochs, interval):
    """With a refresh interval a refreshing and a reusing epoch are among the traced ones, where there is any.

    Of the warm-up only what a short run has nowhere else.
    """
    traced = traced_epochs(epochs, ("refresh", *("reuse",) * (interval - 1)))
    first = min(2, epochs - 1)
    assert traced == sorted(set(traced))
    assert traced[-1] == epochs - 1
    for reuses in (False, True):
        there = [e for e in range(epochs) if bool(e % interval) == reuses]
        found = [e for e in traced if e in there]
        assert bool(found) == bool(there)
        assert all(e >= first for e in found) or found == there[-1:]


@given(st.integers(1, 400), st.integers(3, 40))
def test_each_of_many_programs_is_traced(epochs, count):
    """Every program that a run plays is among the traced epochs, which are few cycles' nevertheless."""
    traced = traced_epochs(epochs, [str(number) for number in range(count)])
    assert {epoch % count for epoch in traced} == {epoch % count for epoch in range(epochs)}
    assert len(traced) <= 2 * MAX_TRACED_EPOCHS + 2 * count
