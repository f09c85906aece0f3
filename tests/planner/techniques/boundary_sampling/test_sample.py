"""Sampled halos against dense autograd on the matrices of each draw."""

import numpy as np
import pytest
import torch
from torch import nn
from torch_geometric import nn as pyg

from gnnplan.planner.composition.compose import compose
from gnnplan.planner.contracts.technique import Situation
from gnnplan.planner.model_spec import ModelSpec
from gnnplan.planner.techniques.boundary_sampling.technique import Sampled, drawn
from tests.planner.composition.chosen import OPTIMIZER
from tests.planner.models.trained_modules import forward_of, made
from tests.planner.program.cases import partition, small_graph, travels
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


class Both(nn.Module):
    """Sums of features, which all travel, beside sums of rows at the same level, of which a share does."""

    def __init__(self, num_features, num_classes):
        super().__init__()
        self.first, self.lin = pyg.GCNConv(num_features, 6), nn.Linear(num_features, 6)
        self.second, self.head = pyg.GCNConv(6, 6), nn.Linear(6, num_classes)

    def forward(self, x, edge_index):
        h = self.second(self.lin(x).relu(), edge_index)
        return self.head(h + self.first(x, edge_index))


class Normed(nn.Module):
    """A norm with running statistics, which all draws go on with."""

    def __init__(self, num_features, num_classes):
        super().__init__()
        self.conv, self.norm, self.head = pyg.GCNConv(num_features, 6), nn.BatchNorm1d(6), nn.Linear(6, num_classes)

    def forward(self, x, edge_index):
        return self.head(self.norm(self.conv(x, edge_index)))


def test_statistics_that_run_on_are_of_all_draws():
    """Every draw's program has the same cell."""
    cycle = sampled(Normed)
    cells = [{n for op in cycle.programs[name] for n in op.writes if n == "norm.running"} for name in cycle.order]
    assert cells == [{"norm.running"}] * DRAWS["num_draws"]


def sampled(module):
    """A module's programs on three workers, with draws."""
    forward = forward_of(made(module), small_graph())
    filters = [op.key for op in forward.operators() if op.kind == "filter"]
    choices = [
        chosen("halo_exchange", {"part": partition(3).astype(np.int32)}),
        chosen("operator_order", of=dict.fromkeys(filters, "aggregate_first")),
        chosen("boundary_sampling", **DRAWS),
    ]
    return compose(forward, choices, Situation(ModelSpec(kind="module"), 3, (0, 0, 1)), OPTIMIZER)


def test_rows_that_all_travel_are_summed_over_all_edges():
    """Every sum has the edges of the rows that it reads."""
    cycle = sampled(Both)
    sums = [op for op in cycle.operators_of_epochs() if op.kind == "aggregate" and not op.attributes.get("back")]
    assert any("/draw" in op.attributes["block"] for op in sums)
    assert {cycle.blocks[op.attributes["block"]].column == cycle.values[op.reads[0]].space for op in sums} == {True}
