"""Layers that run their own code are refused where a row depends on more than its edges: tried on sample rows."""

import re
from pathlib import Path

import pytest
import torch
from torch import nn
from torch.nn import functional as F
from torch_geometric import nn as pyg
from torch_geometric.nn.conv.gcn_conv import gcn_norm

from gnnplan.profiles.errors import UserError
from tests.planner.models.own_modules import WIDTH
from tests.planner.models.trained_modules import forward_of, made
from tests.planner.program.cases import small_graph

BY_ROWS = "a row that it makes depends on more than that row, its incoming edges and the rows at these"


class Base(pyg.MessagePassing):
    """A layer that sums."""

    def __init__(self):
        super().__init__(aggr="add")
        self.lin, self.norm = nn.Linear(WIDTH, WIDTH), nn.BatchNorm1d(WIDTH)
        self.register_buffer("calls", torch.zeros(1))

    def summed(self, x, edge_index):
        return self.lin(self.propagate(edge_index, x=x))


class ByDegrees(Base):
    """Weights from the degrees of both ends, of which a worker knows one."""

    def forward(self, x, edge_index):
        edge_index, weight = gcn_norm(edge_index, num_nodes=len(x))
        return self.propagate(edge_index, x=self.lin(x), weight=weight)

    def message(self, x_j, weight):
        return x_j * weight[:, None]


class NormInside(Base):
    """A batch norm, whose means are those of the rows that a worker happens to have."""

    def forward(self, x, edge_index):
        return self.norm(self.summed(x, edge_index))


class Everywhere(Base):
    """Attention over all rows."""

    def forward(self, x, edge_index):
        return self.summed(x, edge_index) + torch.softmax(x @ x.t(), dim=1) @ x


class Backwards(Base):
    """Against the edges."""

    def forward(self, x, edge_index):
        return self.summed(x, edge_index.flip(0))


class TwoHops(Base):
    """Neighbours of neighbours."""

    def forward(self, x, edge_index):
        return self.summed(self.summed(x, edge_index), edge_index)


class Dropping(Base):
    """A dropout of its own, which draws other numbers on every worker."""

    def forward(self, x, edge_index):
        return F.dropout(self.summed(x, edge_index), 0.5, self.training)


class Counting(Base):
    """A buffer that every call changes, and reads."""

    def forward(self, x, edge_index):
        self.calls += 1
        return self.summed(x, edge_index) * self.calls


class TwoValues(Base):
    """Two values on rows."""

    def forward(self, x, edge_index):
        return self.summed(x, edge_index), x


class EdgesByDegree(Base):
    """Rows are right, but what it makes on edges is not."""

    def forward(self, x, edge_index):
        degree = torch.bincount(edge_index[1], minlength=len(x)).float()
        return self.summed(x, edge_index), degree[edge_index[0]][:, None]


class Failing(Base):
    """A mistake of its writer."""

    def forward(self, x, edge_index):
        return self.lin(torch.cat([x, x], dim=1))


WHY = {
    ByDegrees: BY_ROWS,
    NormInside: BY_ROWS,
    Everywhere: BY_ROWS,
    Backwards: BY_ROWS,
    TwoHops: BY_ROWS,
    Dropping: "it draws random numbers in training; set its own dropout to 0, and drop rows before it",
    Counting: "it changes its buffers, which every worker would change otherwise",
    TwoValues: "it must make a row for every vertex, and beside it at most new features, a row for every edge",
    EdgesByDegree: BY_ROWS,
    Failing: "it fails on sample rows: mat1 and mat2 shapes cannot be multiplied",
}


class Around(nn.Module):
    """A module with such a layer."""

    def __init__(self, num_features, num_classes, layer):
        super().__init__()
        self.first, self.own, self.head = nn.Linear(num_features, WIDTH), layer(), nn.Linear(WIDTH, num_classes)

    def forward(self, x, edge_index):
        return self.head(self.own(self.first(x), edge_index))  # here


@pytest.mark.parametrize("layer", WHY)
def test_the_layer_and_the_line_are_named(layer):
    """And the reason, in one line."""
    with pytest.raises(UserError) as refused:
        forward_of(made(lambda f, c: Around(f, c, layer)), small_graph())
    lines = Path(__file__).read_text().splitlines()
    line = next(number for number, text in enumerate(lines, 1) if text.endswith("# here"))
    message = str(refused.value)
    words = rf"{re.escape(__file__)}:{line}: own \({layer.__name__}\): {re.escape(WHY[layer])}"
    assert re.match(words, message), message
    assert "\n" not in message


def test_the_layer_is_left_as_it_was():
    """Sample rows change nothing of it, and draw nothing that the user's program would have drawn."""
    module = made(lambda f, c: Around(f, c, Base))
    before, drawn = {name: each.clone() for name, each in module.state_dict().items()}, torch.get_rng_state()
    with pytest.raises(UserError):
        forward_of(made(lambda f, c: Around(f, c, Counting)), small_graph())
    assert torch.equal(torch.get_rng_state(), drawn)
    assert all(torch.equal(each, before[name]) for name, each in module.state_dict().items())
