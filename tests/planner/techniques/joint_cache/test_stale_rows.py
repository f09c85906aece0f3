"""Rows of earlier epochs are wrong by no more than what weights have moved since."""

import numpy as np
import pytest

from gnnplan.planner.program.labels import Label
from tests.planner.program.cases import MODELS, ORDERS, SGD, Case, codes, subset

INTERVAL, EPOCHS = 3, 7


def losses(name, *, learning_rate, interval):
    """Of a training that keeps two in five halo rows; dropout is left out, which would draw other rows each epoch."""
    model = MODELS[name].model_copy(update={"dropout": 0.0, "input_dropout": 0.0})
    table = codes(model, 3, {Label.KEPT: subset(model, 3, 11, 0.4)})
    training = SGD.model_copy(update={"learning_rate": learning_rate, "epochs": EPOCHS})
    case = Case(model, 3, ORDERS["multiplied"], table, (), interval, training)
    run = case.play()
    return np.array(run.losses), run.grads


@pytest.mark.parametrize("name", MODELS)
def test_at_rest_they_are_exact(name):
    """Where weights do not move, losses and gradients are those of rows that are sent in every epoch."""
    (stale, grads), (exact, wanted) = (losses(name, learning_rate=1e-13, interval=r) for r in (INTERVAL, 1))
    np.testing.assert_allclose(stale, exact, rtol=1e-9)
    for epoch, of_exact in zip(grads, wanted, strict=True):
        for key, each in of_exact.items():
            for mine, theirs in zip(epoch[key], each, strict=True):
                np.testing.assert_allclose(mine.numpy(), theirs.numpy(), rtol=1e-7, atol=1e-10)


@pytest.mark.parametrize("name", ["gcn", "sage", "gin"])
def test_the_error_falls_with_the_step(name):
    """With steps a tenth as long losses are off by a fifth at most."""
    off = []
    for rate in (0.02, 0.002):
        (stale, _), (exact, _) = (losses(name, learning_rate=rate, interval=r) for r in (INTERVAL, 1))
        off.append(np.abs(stale - exact).max())
    assert 0 < off[1] < off[0] / 5
