"""Rows and returned gradients of the epoch before, against dense autograd that keeps them."""

import numpy as np
import pytest
import torch

from gnnplan.planner.program.cells import starting_cells, written_over
from tests.planner.composition.chosen import composed
from tests.planner.program.cases import worst
from tests.planner.techniques.halos import CASE, MODEL, chosen, crossing, cycle_with, dense, off, train
from tests.runtime.execution.test_program_executor import compare


class OneLate:
    """What is gathered from others is of the step before, and so are gradients that come back; at first all zero."""

    def __init__(self):
        self.matrix, self.crosses = dense(), crossing()
        self.rows, self.sums = {}, {}

    def __call__(self, z, layer, step):
        own, others = self.matrix * ~self.crosses, self.matrix * self.crosses
        before, self.rows[layer] = self.rows.get(layer), z.detach()
        y = own @ z
        if before is not None:
            y = y + others @ before
        earlier, self.sums[layer] = self.sums.get(layer), y
        y.retain_grad()
        if earlier is None or earlier.grad is None:
            return y, torch.zeros(())
        return y, ((others.T @ earlier.grad) * z).sum()


@pytest.mark.parametrize("beside", [(), (chosen("overlap"),)], ids=["alone", "overlapped"])
def test_equals_dense_autograd_one_step_late(beside):
    """Losses and parameters; and they are not those of rows that come at once."""
    assert off(cycle_with(CASE, chosen("late_halos"), *beside), *train(OneLate())) < 1e-9
    assert off(cycle_with(CASE), *train(OneLate())) > 1e-3


@pytest.mark.parametrize("what", ["nothing", "sums"])
def test_sums_that_are_made_again_are_of_the_rows_that_were_there(what):
    """The backward half makes a chunk's sums again, and meanwhile the rows of this epoch have come."""
    orders = chosen("operator_order", of={f"l{layer}/filter": "aggregate_first" for layer in range(3)})
    cycles = [
        ordered(CASE, orders, chosen("late_halos"), *beside)
        for beside in ((), (chosen("destination_chunks", num_chunks=2, recompute=what),))
    ]
    plain, chunked = (CASE.play(cycle) for cycle in cycles)
    assert max(map(worst, chunked.losses, plain.losses)) < 1e-9
    assert written_over(cycles[1]) == []


def ordered(case, *choices):
    return composed(case, [chosen("halo_exchange", {"part": case.part.astype(np.int32)}), *choices])


def test_exchanges_run_beside_the_rest_of_the_epoch():
    """Nobody waits for one before the epoch's end."""
    cycle = cycle_with(CASE, chosen("late_halos"), chosen("overlap"))
    program = cycle.programs["train"]
    late = [op.writes[0] for op in program if op.kind == "exchange"]
    assert len(late) == 2 * MODEL.num_layers
    for number, op in enumerate(program):
        if op.writes[0] in late:
            assert not any(op.writes[0] in other.reads for other in program[number:])
    assert set(late) <= set(starting_cells(cycle))


def test_evaluation_receives_its_own_rows():
    """It reads no cell."""
    cycle = cycle_with(CASE, chosen("late_halos"))
    read = {name for op in cycle.programs["evaluate"] for name in (*op.reads, *op.writes)}
    assert not any(cycle.values[name].role == "cell" for name in read)


@pytest.mark.parametrize("beside", [(), (chosen("overlap"),)], ids=["alone", "overlapped"])
def test_runs_on_kernels(beside):
    """As the sequential executor plays it."""
    compare(CASE, cycle_with(CASE, chosen("late_halos"), *beside))
