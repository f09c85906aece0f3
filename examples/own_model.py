"""A PyTorch Geometric module of one's own, trained by a plan for this machine.

python examples/own_model.py
"""

import torch
import torch.nn.functional as F
from torch_geometric.data import Data
from torch_geometric.nn import GCNConv, SAGEConv

import gnnplan


class Net(torch.nn.Module):
    """Two layers, a batch norm, a skip connection and a head."""

    def __init__(self, num_features, num_classes, width=64):
        super().__init__()
        self.first = torch.nn.Linear(num_features, width)
        self.conv1, self.norm = GCNConv(width, width), torch.nn.BatchNorm1d(width)
        self.conv2, self.head = SAGEConv(width, width), torch.nn.Linear(width, num_classes)

    def forward(self, x, edge_index):
        x = F.relu(self.first(x))
        x = x + F.dropout(F.relu(self.norm(self.conv1(x, edge_index))), 0.3, self.training)
        return self.head(F.relu(self.conv2(x, edge_index)))


def build(num_features, num_classes):
    """What `model = "own_model.py:build"` in a job file calls."""
    return Net(num_features, num_classes)


def drawn(num_nodes=4_000, num_edges=40_000, num_classes=4) -> Data:
    """A random graph whose neighbours tend to have the same label."""
    generator = torch.Generator().manual_seed(0)
    y = torch.randint(0, num_classes, (num_nodes,), generator=generator)
    source = torch.randint(0, num_nodes, (num_edges,), generator=generator)
    target = torch.argsort(y)[torch.argsort(torch.argsort(y[source])) * num_nodes // num_edges]
    x = torch.randn(num_nodes, 32, generator=generator) + torch.eye(num_classes, 32)[y]
    return Data(x=x, edge_index=torch.stack([source, target]), y=y)


def main(cluster=None, folder=None) -> gnnplan.Plan:
    """Trains, and says how far the prediction was off and how good the module is."""
    data = drawn()
    torch.manual_seed(0)
    module = build(data.num_features, 4)
    trained = gnnplan.train(model=module, graph=data, epochs=50, cluster=cluster, folder=folder)
    print(trained)
    right = trained.model.eval()(data.x, data.edge_index).argmax(1) == data.y
    print(f"{right.float().mean():.1%} of all vertices are right")
    return trained.plan


if __name__ == "__main__":
    main()
