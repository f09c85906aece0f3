"""Cells that start at zero are those that are read before they are written."""

import pytest

from gnnplan.planner.program.cells import starting_cells, written_over
from gnnplan.planner.program.cycle import Cycle
from gnnplan.planner.program.derive import Derivation
from gnnplan.planner.program.emitter import Emitter
from gnnplan.planner.program.labels import Label
from gnnplan.planner.program.parts import Space, Value
from gnnplan.planner.training_spec import TrainingSpec
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


@pytest.mark.parametrize("place", ["before", "after", "behind all"])
def test_a_cell_that_is_written_over_before_its_derivative_reads_it_is_named(place):
    """A derivative would read the new rows in place of those that its operator has read."""
    emitter = Emitter(Cycle(1, spaces={"rows": Space("rows", (4,))}))
    for name, role in (("w", "parameter"), ("kept", "cell"), ("seed", "input")):
        emitter.add_value(Value(name, "rows", 3, role=role))

    def move(now):
        if now == place:
            emitter.emit("scale", "kept", key="moved", factor=0.5, writes=("kept",))

    move("before")
    derivation_of = emitter.emit("product", "w", "kept", key="out")
    move("after")
    derivation = Derivation(emitter)
    derivation.grads[derivation_of] = "seed"
    derivation.run()
    move("behind all")
    emitter.end("train")
    faults = written_over(emitter.cycle)
    wrong = "train: out/backward/product reads cell kept, which moved has written over"
    assert faults == ([wrong] if place == "after" else [])
