"""Cells that start at zero are those that are read before they are written."""

import pytest

from gnnplan.planner.job import TrainingSpec
from gnnplan.planner.program.cells import starting_cells
from gnnplan.planner.program.labels import Label
from tests.planner.program.cases import MODELS, ORDERS, SEED, Case, codes, subset


@pytest.mark.parametrize("name", MODELS)
def test_moments_start_at_zero_and_what_is_received_does_not(name):
    """Adam's counts and moments; neither what is hoisted nor what is kept, for these are written first."""
    model = MODELS[name]
    table = codes(model, 3, {Label.KEPT: subset(model, 3, 8)})
    training = TrainingSpec(optimizer="adam", seed=SEED)
    cycle = Case(model, 3, ORDERS["aggregated"], table, ("once",), 2, training).cycle()
    moments = {f"{each}:{name}" for name in cycle.parameters for each in ("exp_avg", "exp_avg_sq")}
    assert set(starting_cells(cycle)) == {"num_steps", *moments}
    others = {key for key, value in cycle.values.items() if value.role == "cell"} - set(starting_cells(cycle))
    assert len(others) >= 2
