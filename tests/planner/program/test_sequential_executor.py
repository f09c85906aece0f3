"""The executor that is the reference: it goes on where it stopped, and holds what its values need."""

import numpy as np
import pytest
import torch

from gnnplan.planner.program.labels import Label
from gnnplan.planner.program.sequential import SequentialExecutor
from gnnplan.planner.training_spec import TrainingSpec
from tests.planner.program.cases import MODELS, ORDERS, PASSES, SEED, Case, codes, initial, matrix_of, subset


def case_of(name: str) -> Case:
    model = MODELS[name]
    chosen = {Label.MADE: subset(model, 3, 1, 0.3), Label.KEPT: subset(model, 3, 2, 0.3)}
    training = TrainingSpec(optimizer="adam", epochs=6, seed=SEED)
    return Case(model, 3, ORDERS["mixed"], codes(model, 3, chosen), PASSES, 2, training)


@pytest.mark.long
@pytest.mark.parametrize("name", MODELS)
def test_training_goes_on_from_parameters_and_cells(name):
    """Epochs in two goes give the bits of one go: everything that lasts is stored under its name."""
    case = case_of(name)
    whole, first, second = case.play(), case.play(epochs=4), case.play(epochs=0)
    for key, workers in first.executor.stored.items():
        second.executor.stored[key] = [each.clone() for each in workers]
    results = second.executor.train(2, first=4)
    assert [float(each["total_loss"][0]) for each in results] == whole.losses[4:]
    for key, workers in whole.executor.stored.items():
        assert all(a.equal(b) for a, b in zip(workers, second.executor.stored[key], strict=True))


@pytest.mark.parametrize("name", MODELS)
def test_every_worker_has_the_results(name):
    """The loss that is handed out is the sum over workers, on each of them."""
    case = case_of(name)
    results = case.play(epochs=0).executor.run("train")
    alone = Case(case.model, 1, training=case.training).play(epochs=1)
    assert "loss" not in results
    assert len(results["total_loss"]) == 3
    assert all(abs(float(each) - alone.losses[0]) < 1e-12 for each in results["total_loss"])


def test_single_precision_is_near_double():
    """The same program in the precision that it is trained in."""
    case = Case(MODELS["gcn"], 3, passes=("split", "storage"))
    double, cycle = case.play(), case.cycle()
    start = {key: matrix_of(value) for key, value in initial(case.model).items()}
    single = SequentialExecutor(cycle, double.inputs(), start, torch.float32)
    losses = [float(each["total_loss"][0]) for each in single.train(3)]
    assert single.stored["convs.0.bias"][0].dtype == torch.float32
    assert np.allclose(losses, double.losses, rtol=1e-5)
    assert losses != double.losses


def test_inputs_and_starting_parameters_are_only_read():
    """Two trainings from the same tensors are the same training."""
    case = Case(MODELS["gcn"], 2, passes=("storage",))
    run = case.play(epochs=0)
    inputs, start = run.inputs(), {key: matrix_of(value).double() for key, value in initial(case.model).items()}
    before = [each.clone() for each in (*inputs["x"], *start.values())]
    for _ in range(2):
        SequentialExecutor(case.cycle(), inputs, start).train(2)
    assert all(a.equal(b) for a, b in zip(before, (*inputs["x"], *start.values()), strict=True))


def test_peak_bytes_count_a_storage_once():
    """Views take no room, and a value's room is free after its last use."""
    run = Case(MODELS["gcn"], 1, passes=()).play(epochs=1)
    cycle = run.cycle
    program = cycle.programs["train"]
    everything = sum(cycle.num_bytes(name, 0) for op in program for name in op.writes if op.kind != "step")
    largest = max(cycle.num_bytes(name, 0) for op in program for name in op.writes)
    assert largest < run.executor.peak_bytes[0] < everything
