"""Sampled halos against dense autograd on the matrices of each draw."""

import numpy as np
import pytest
import torch

from gnnplan.planner.techniques.boundary_sampling.technique import Sampled, drawn
from tests.planner.program.cases import travels
from tests.planner.techniques.halos import CASE, chosen, crossing, cycle_with, dense, off, train
from tests.runtime.execution.test_program_executor import compare

DRAWS = {"num_draws": 3, "probability": 0.4, "seed": 5}


def matrices(decision):
    """A of every draw: of edges that cross those are left whose source was drawn for the target's worker."""
    whole, crosses, part, n = dense(), crossing(), CASE.part, len(CASE.part)
    factor = 1 / decision.probability if decision.correction else 1.0
    found = []
    for number in range(decision.num_draws):
        is_drawn = np.stack([drawn(decision, number, worker, np.arange(n)) for worker in range(CASE.num_workers)])
        kept = torch.from_numpy(is_drawn[part])
        found.append(torch.where(crosses, whole * kept * factor, whole))
    return found


@pytest.mark.parametrize("correction", [True, False])
@pytest.mark.parametrize("beside", [(), (chosen("overlap"),)], ids=["alone", "overlapped"])
def test_equals_dense_autograd_on_the_draws(beside, correction):
    """Losses and parameters, with draws in turn."""
    decision = Sampled(**DRAWS, correction=correction)
    each = matrices(decision)
    want = train(lambda z, layer, step: (each[step % len(each)] @ z, torch.zeros(())))
    assert off(cycle_with(CASE, chosen("boundary_sampling", **decision.model_dump()), *beside), *want) < 1e-7
    assert off(cycle_with(CASE), *want) > 1e-3


def test_all_rows_are_exact():
    """With a probability of 1 nothing is left out."""
    cycle = cycle_with(CASE, chosen("boundary_sampling", num_draws=2, probability=1.0))
    matrix = dense()
    assert off(cycle, *train(lambda z, layer, step: (matrix @ z, torch.zeros(())))) < 1e-9


def test_a_share_of_the_rows_travels():
    """There and back, about p of them; an evaluation has all."""
    cycle, whole = (
        cycle_with(CASE, *more) for more in ((chosen("boundary_sampling", num_draws=9, probability=0.4),), ())
    )
    count = travels(whole.programs["train"], whole)["sent"]
    for back in (False, True):
        steps = [travels(cycle.programs[name], cycle, back=back)["sent"] for name in cycle.order]
        assert len(set(steps)) > 1
        assert np.mean(steps) == pytest.approx(0.4 * count, rel=0.15)
    assert travels(cycle.programs["evaluate"], cycle) == travels(whole.programs["evaluate"], whole)


def test_runs_on_kernels():
    """As the sequential executor plays it."""
    compare(CASE, cycle_with(CASE, chosen("boundary_sampling", **DRAWS), chosen("overlap")))
