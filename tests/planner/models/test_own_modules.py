"""A module of one's own has the numbers of PyG's plain training, whatever technique and however many workers."""

from functools import cache

import pytest
from torch import nn
from torch_geometric.nn import GCNConv

from tests.planner.models.own_modules import MODULES
from tests.planner.models.trained_modules import by_program, by_pyg, forward_of, made, workers_and_techniques
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


class AllDropped(nn.Module):
    """Dropout of all there is."""

    def __init__(self, num_features, num_classes):
        super().__init__()
        self.conv, self.drop = GCNConv(num_features, num_classes), nn.Dropout(1.0)

    def forward(self, x, edge_index):
        x = self.conv(x, edge_index)
        return self.drop(x) + x


def test_all_that_is_dropped_is_zero():
    """As torch has it; there is no factor that would make up for it."""
    cycle = forward_of(made(AllDropped), small_graph())
    assert [op.attributes["factor"] for op in cycle.programs["train"] if op.kind == "scale"] == [0.0]
    assert not [op for op in cycle.operators() if op.kind == "dropout"]
