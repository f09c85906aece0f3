"""A module of one's own has the numbers of PyG's plain training, whatever technique and however many workers."""

from functools import cache

import pytest

from tests.planner.models.own_modules import MODULES
from tests.planner.models.trained_modules import by_program, by_pyg, made, workers_and_techniques
from tests.planner.program.cases import small_graph

EPOCHS = 5
EXACT = 1e-5  # aggregation weights are float32 here, and float64 in PyG


@cache
def by_autograd(name):
    return by_pyg(made(MODULES[name]), small_graph(), EPOCHS)


@pytest.mark.parametrize(("num_workers", "technique"), workers_and_techniques(), ids=str)
@pytest.mark.parametrize("name", MODULES)
def test_trains_as_pyg_does(name, num_workers, technique):
    """Losses, parameters, running statistics and what an evaluation finds right, after five epochs."""
    got = by_program(made(MODULES[name]), small_graph(), num_workers, technique, EPOCHS)
    want = by_autograd(name)
    assert got.off(want) <= EXACT
    assert got.hits == want.hits
