"""The state of attention: a logarithm of mass that rises, falls, and never overflows."""

import numpy as np
import pytest
import torch

from gnnplan.planner.program.parts import Operator
from gnnplan.planner.techniques.source_chunks.decision import Chunks
from tests.planner.program.cases import Run, watched
from tests.planner.techniques.source_chunks.chunked import Chunked
from tests.runtime.execution.test_program_executor import inputs_of, weights_of
from tests.runtime.execution.threads import play_on_threads

SPLIT = Chunks(num_chunks=3, seed=1)


def with_scores(chunked, factor):
    """A training whose first layer's scores are times a factor, for one side up and for the other down."""
    cycle, start = watched(chunked.cycle()), weights_of(chunked.case)
    return cycle, {name: weight * (factor if "convs.0.att" in name else 1) for name, weight in start.items()}


@pytest.mark.long
@pytest.mark.parametrize("factor", [1e4, -1e4, 3e4])
@pytest.mark.parametrize("num_workers", [1, 3])
def test_great_scores_stay_finite(num_workers, factor):
    """Logits of tens of thousands, above zero and below, in float32 on kernels as in float64."""
    chunked = Chunked("gat", SPLIT, num_workers)
    cycle, start = with_scores(chunked, factor)
    run = Run(chunked.case, cycle)
    run.executor.stored |= {name: [value.double().clone() for _ in cycle.workers] for name, value in start.items()}
    scores = scores_of(run, cycle)
    assert np.abs(scores).max() > 1e4
    run.train(range(3))
    assert np.isfinite(run.losses).all()

    def losses(executor, rank):
        results = [executor.run(cycle.order[at], at) for at in range(3)]
        return [float(each["loss" if num_workers == 1 else "total_loss"]) for each in results]

    for found in play_on_threads(cycle, inputs_of(run), start, losses):
        assert np.isfinite(found).all()
        assert found[0] == pytest.approx(run.losses[0], rel=1e-4)


def scores_of(run, cycle):
    """The first layer's scores in the first step, before anything is trained."""
    seen, play = [], run.executor._execute

    def watched(op: Operator, live):
        written = play(op, live)
        if op.kind == "score" and op.key.startswith("l0"):
            seen.extend(tensor.numpy() for each in written for tensor in each)
        return written

    run.executor._execute = watched
    before = {name: [each.clone() for each in held] for name, held in run.executor.stored.items()}
    run.executor.run(cycle.order[0])
    run.executor._execute, run.executor.stored = play, before
    return np.concatenate(seen)


def test_a_mass_falls_as_well_as_it_rises():
    """Where scores fall, what is kept of them follows: it is clamped to nothing that was before."""
    chunked = Chunked("gat", Chunks(num_chunks=2, seed=1), 2)
    cycle, high = with_scores(chunked, 60.0)
    run = Run(chunked.case, cycle)
    (mass,) = (name for name in cycle.values if name.startswith("mass:l0"))
    run.executor.stored |= {name: [value.double().clone() for _ in cycle.workers] for name, value in high.items()}
    run.train(range(2))
    before = torch.cat(run.executor.stored[mass])
    low = {name: value * (-1 if "convs.0.att" in name else 1) for name, value in high.items()}
    run.executor.stored |= {name: [value.double().clone() for _ in cycle.workers] for name, value in low.items()}
    run.train(range(2, 40))
    after = torch.cat(run.executor.stored[mass])
    assert (after < before - 1).any()
    assert (after > before + 1).any()


def test_a_sum_of_one_is_not_taken_for_nothing():
    """The logarithm of a mass of one is zero, which stands for no mass: it is kept as the least number above it."""
    chunked = Chunked("gat", Chunks(num_chunks=2, seed=1), 1)
    cycle, start = with_scores(chunked, 0.0)
    run = Run(chunked.case, cycle)
    run.executor.stored |= {name: [value.double().clone()] for name, value in start.items()}
    run.train(range(2))
    (mass,) = (run.executor.stored[name][0] for name in cycle.values if name.startswith("mass:l0"))
    assert not (mass == 0).any()
