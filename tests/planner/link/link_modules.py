"""Modules that make embeddings, and a graph with pairs."""

from functools import cache

from torch import nn
from torch.nn import functional as F
from torch_geometric import nn as pyg

from gnnplan.planner.link.spec import LinkSpec
from gnnplan.planner.link.split import link_graph
from tests.planner.models.trained_modules import made
from tests.planner.program.cases import small_graph

CONVS = {
    "gcn": lambda a, b: pyg.GCNConv(a, b),
    "sage": lambda a, b: pyg.SAGEConv(a, b),
    "gat": lambda a, b: pyg.GATConv(a, b, heads=1),
    "gin": lambda a, b: pyg.GINConv(nn.Linear(a, b)),
    "own code": lambda a, b: pyg.ResGatedGraphConv(a, b),
    "no edges": lambda a, b: Rows(a, b),
}


class Rows(nn.Module):
    """A layer that looks at no neighbours."""

    def __init__(self, a, b):
        super().__init__()
        self.linear = nn.Linear(a, b)

    def forward(self, x, edge_index):
        return self.linear(x)


class Net(nn.Module):
    """Two layers."""

    def __init__(self, conv, num_features, width):
        super().__init__()
        self.first, self.second = conv(num_features, 6), conv(6, width)

    def forward(self, x, edge_index):
        return self.second(F.relu(self.first(x, edge_index)), edge_index)


@cache
def graph_with_pairs():
    """A small one."""
    spec = LinkSpec(width=5, val_fraction=0.1, test_fraction=0.2, num_negatives=2, num_ranked=9)
    return link_graph(small_graph(), spec, 1)


def net(name, graph=None):
    """A module by its layers."""
    return made(lambda num_features, width: Net(CONVS[name], num_features, width), graph or graph_with_pairs())
