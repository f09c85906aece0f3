"""Accuracies on the way come when every kind of epoch has been, and no epoch is longer for them."""

from types import SimpleNamespace

import pytest
import torch

from gnnplan.runtime import evaluations
from gnnplan.runtime.evaluations import Evaluations, evaluated_epochs


def plan_of(epochs, *, refresh_interval=1, partial=None):
    training = SimpleNamespace(epochs=epochs)
    return SimpleNamespace(
        job=SimpleNamespace(training=training), refresh_interval=refresh_interval, partial=partial, mini_batch=None
    )


@pytest.mark.parametrize("refresh_interval", [1, 4])
def test_epochs_are_spread_over_the_run(refresh_interval):
    """After two kinds have come, each followed by another; as many as are asked for."""
    chosen = sorted(evaluated_epochs(plan_of(100, refresh_interval=refresh_interval), 10))
    assert len(chosen) == 10
    assert chosen[0] > 2 * min(refresh_interval, 2)
    assert chosen[-1] == 98


@pytest.mark.parametrize("plan", [plan_of(3), plan_of(100, partial=object()), plan_of(6, refresh_interval=4)])
def test_where_there_is_no_time_or_no_step_there_is_none(plan):
    """Short runs, and workers that may be out of step."""
    assert evaluated_epochs(plan, 10) == frozenset()


def test_none_is_asked_for():
    assert evaluated_epochs(plan_of(100), 0) == frozenset()


def test_the_training_is_kept_apart(monkeypatch):
    """Peak memory is that before the first evaluation, and the time of all is known."""
    clock, peak = iter([10.0, 11.5, 20.0, 20.5]), iter([100, 900])
    monkeypatch.setattr(evaluations.time, "monotonic", lambda: next(clock))
    monkeypatch.setattr(evaluations, "peak_memory_bytes", lambda device, rows_in: next(peak))
    accuracies = iter([{"val": 0.1}, {"val": 0.2}])
    trainer = SimpleNamespace(evaluate=lambda: next(accuracies))
    seen = Evaluations(trainer, torch.device("cpu"), frozenset({3, 6}))
    for epoch in range(8):
        seen.after(epoch)
    assert (seen.spent_s, seen.accuracy, seen.peak_bytes()) == (2.0, {"val": 0.2}, 100)


def test_a_long_cycle_is_looked_at_before_it_ends():
    """However many kinds of epochs there are; a training of a hundred of them has accuracies."""
    chosen = sorted(evaluated_epochs(plan_of(100, refresh_interval=200), 10))
    assert len(chosen) == 10
    assert chosen[0] < 10
