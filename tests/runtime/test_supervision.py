"""What the validation metric decides: torch's own schedule on a plateau, and the best weights of all."""

import numpy as np
import pytest
import torch

from gnnplan.planner.metrics import METRICS
from gnnplan.planner.training_spec import TrainingSpec
from gnnplan.runtime.supervision import Plateau, Supervision

RATE = 0.1


@pytest.mark.parametrize("name", ["accuracy", "rmse"])
@pytest.mark.parametrize(
    "given",
    [
        {"patience": 1, "factor": 0.5},
        {"patience": 0, "factor": 0.3, "cooldown": 2},
        {"patience": 2, "threshold": 0.2, "min_lr": 0.04, "factor": 0.5},
    ],
    ids=str,
)
def test_a_plateau_is_torchs(name, given):
    """The learning rate after each of many metrics that rise and fall."""
    metric, values = METRICS[name], np.random.default_rng(1).random(60) + 0.5
    optimizer = torch.optim.SGD([torch.zeros(1, requires_grad=True)], lr=RATE)
    torchs = torch.optim.lr_scheduler.ReduceLROnPlateau(optimizer, "min" if metric.of_targets else "max", **given)
    plateau = Plateau(metric, RATE, given)
    rates = []
    for value in values:
        torchs.step(float(value))
        plateau.after(float(value))
        rates.append(optimizer.param_groups[0]["lr"])
        assert plateau.factor * RATE == pytest.approx(rates[-1], rel=1e-12, abs=1e-9)
    assert len(set(rates)) > 2


def supervised(patience=2, metric="accuracy", **settings):
    """Of one weight, which says in which epoch it was."""
    training = TrainingSpec(early_stopping={"patience": patience, **settings}, epochs=20)
    return Supervision(training, METRICS[metric], {"w": torch.zeros(1, 1)})


def play(supervision, values):
    """Epochs until it is over."""
    for epoch, value in enumerate(values):
        supervision.weights["w"].fill_(epoch)
        supervision.after(epoch, value)
        if supervision.is_over:
            return epoch
    return None


@pytest.mark.parametrize(
    ("metric", "values", "stopped", "best"),
    [
        ("accuracy", [0.1, 0.3, 0.2, 0.3, 0.9], 3, 1),
        ("accuracy", [0.1, 0.3, 0.2, 0.4, 0.1, 0.1, 0.9], 5, 3),
        ("rmse", [0.4, 0.2, 0.3, 0.3, 0.1], 3, 1),
        ("accuracy", [0.1, 0.2, 0.3], None, 2),
    ],
)
def test_it_stops_with_the_best_weights(metric, values, stopped, best):
    """After as many validations as it waits; equal is not better."""
    supervision = supervised(metric=metric)
    assert play(supervision, values) == stopped
    assert f"epoch {best}, with" in supervision.put_best_back()
    assert supervision.weights["w"].item() == best


def test_small_steps_do_not_count():
    """Below `min_delta`."""
    assert play(supervised(min_delta=0.1), [0.1, 0.15, 0.19]) == 2


def test_its_state_goes_on():
    """Put into another, it stops where the first would, with the same weights."""
    values = [0.1, 0.5, 0.4, 0.3, 0.2]
    first, second = supervised(patience=3), supervised(patience=3)
    assert play(first, values[:3]) is None
    arrays = {name: np.asarray(each).copy() for name, each in first.held().items()}
    assert set(first.like()) == set(arrays)
    second.put(arrays)
    second.after(3, values[3])
    second.after(4, values[4])
    assert second.is_over
    second.put_best_back()
    assert second.weights["w"].item() == 1


def test_nothing_is_kept_for_a_plateau_alone():
    """No copy of the weights, and no epoch is put back."""
    training = TrainingSpec(schedule="plateau", validate_every=2)
    supervision = Supervision(training, METRICS["accuracy"], {"w": torch.zeros(1, 1)})
    assert [epoch for epoch in range(6) if supervision.is_due(epoch)] == [1, 3, 5]
    supervision.after(1, 0.5)
    assert (supervision.put_best_back(), list(supervision.like())) == ("", ["control/metric:accuracy"])


def test_a_warm_up_is_no_plateau():
    """The schedule begins behind it."""
    given = {"patience": 0.0, "factor": 0.5}
    training = TrainingSpec(schedule="plateau", schedule_arguments=given, warmup_epochs=4)
    supervision = Supervision(training, METRICS["accuracy"], {"w": torch.zeros(1, 1)})
    for epoch in range(5):
        supervision.after(epoch, 0.5)
    assert supervision.rate_factor == 1
    supervision.after(5, 0.5)
    assert supervision.rate_factor == 0.5


def test_values_of_another_metric_are_not_its_own():
    """What was the best by one says nothing by the other."""
    assert supervised(metric="accuracy").like().keys() != supervised(metric="f1_macro").like().keys()
