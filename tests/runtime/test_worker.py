"""The worker process: which epochs it traces, the memory it reports, the trace rank 0 writes."""

from itertools import pairwise
from types import SimpleNamespace

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from gnnplan.runtime import worker
from gnnplan.runtime.worker import MAX_TRACED_EPOCHS, peak_memory_bytes, traced_epochs

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
    training = SimpleNamespace(epochs=3, traced_epochs=1)
    decision = SimpleNamespace(cache=SimpleNamespace(refresh_interval=1))
    plan = SimpleNamespace(job=SimpleNamespace(training=training), decision=decision, num_workers=1)
    monkeypatch.setattr(torch.cuda, "max_memory_allocated", lambda _: max(counted))
    monkeypatch.setattr(torch.cuda, "reset_peak_memory_stats", lambda _: counted.clear())
    monkeypatch.setattr(worker.Shard, "load", lambda _: None)
    monkeypatch.setattr(worker, "_trainer_of", lambda *_: trainer)
    monkeypatch.setattr(worker, "_run_epochs", run_epochs)
    monkeypatch.setattr(
        worker,
        "measured_trace",
        lambda _, figures, __: gathered.extend(figures) or SimpleNamespace(save=lambda _: None),
    )
    worker._train(plan, tmp_path, 0, torch.device("cuda"), 10.0)
    assert [figures["peak_bytes"] for figures in gathered] == [100]


def test_figures_of_a_single_worker_need_no_group():
    """Without a process group, gathering is the worker's own figures."""
    assert worker._gather({"a": [1, 2.5]}) == [{"a": [1, 2.5]}]


@pytest.mark.parametrize("device_kind", ["cpu", "cuda"])
def test_gpu_plan_on_a_machine_without_gpu_runs_on_the_cpu(monkeypatch, device_kind):
    """The device is CUDA only where both the profile and the machine say so; threads come from the environment."""

    class Place:
        profile = "p"

    class Plan:
        class placement:
            workers = (Place,)
            profiles = {"p": type("Profile", (), {"device_kind": device_kind})}  # noqa: RUF012

    asked = []
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    monkeypatch.setattr(torch, "set_num_threads", asked.append)
    for key, value in {"RANK": "0", "LOCAL_RANK": "0", "OMP_NUM_THREADS": "3"}.items():
        monkeypatch.setenv(key, value)
    assert worker._pick_device(Plan).type == "cpu"
    assert asked == [3]


@given(st.integers(1, 400), st.integers(2, 9))
def test_both_kinds_of_epochs_are_traced(epochs, interval):
    """With a refresh interval a refreshing and a reusing epoch are among the traced ones, where there is any.

    Of the warm-up only what a short run has nowhere else.
    """
    traced = traced_epochs(epochs, interval)
    first = min(2, epochs - 1)
    assert traced == sorted(set(traced))
    assert traced[-1] == epochs - 1
    for reuses in (False, True):
        there = [e for e in range(epochs) if bool(e % interval) == reuses]
        found = [e for e in traced if e in there]
        assert bool(found) == bool(there)
        assert all(e >= first for e in found) or found == there[-1:]
