"""Loops in the manner of PyG's examples, with the import changed alone, on small graphs: they run, learn and are exact.

Each is written after the example that it is named by: the same loaders with the same keywords, the same edits of their
data, the same use of what a batch holds. Sizes are smaller.
"""

import copy
import itertools

import pytest
import torch
import torch.nn.functional as F
import torch_geometric.transforms as T
from torch_geometric.data import HeteroData
from torch_geometric.nn import SAGEConv

from gnnplan.profiles.errors import UserError
from gnnplan.runtime.sampling import LinkNeighborLoader, NeighborLoader
from tests.runtime.sampling.test_loader import sbm


class Net(torch.nn.Module):
    """Layers of SAGE with dropout between them, on a sample or on all edges."""

    def __init__(self, *widths):
        super().__init__()
        self.convs = torch.nn.ModuleList(SAGEConv(*pair) for pair in itertools.pairwise(widths))

    def forward(self, x, edge_index):
        for conv in self.convs[:-1]:
            x = F.dropout(conv(x, edge_index).relu(), 0.5, self.training)
        return self.convs[-1](x, edge_index)

    def layer_by_layer(self, x_all, loader):
        """All vertices through one layer after another, from batches with all neighbours."""
        for conv in self.convs:
            rows = [
                conv(x_all[batch.n_id], batch.edge_index)[: batch.batch_size]  # the seeds come first
                for batch in loader
            ]
            x_all = torch.cat(rows)
            if conv is not self.convs[-1]:
                x_all = x_all.relu()
        return x_all


@pytest.fixture
def data():
    torch.manual_seed(0)
    return T.RandomNodeSplit(num_val=50, num_test=100)(sbm())


def trained(model, loader, epochs):
    """By cross-entropy of the seeds; the share that was right in the last epoch."""
    optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
    model.train()
    for _ in range(epochs):
        right = 0
        for batch in loader:
            optimizer.zero_grad()
            y = batch.y[: batch.batch_size]
            scores = model(batch.x, batch.edge_index)[: batch.batch_size]
            F.cross_entropy(scores, y).backward()
            optimizer.step()
            right += int((scores.argmax(dim=-1) == y).sum())
    return right / len(loader.dataset)


def test_reddit(data):
    """A training loader of a mask, and one of everything whose data is emptied but for the vertices' numbers."""
    kwargs = {"batch_size": 64, "num_workers": 2, "persistent_workers": True}
    train_loader = NeighborLoader(data, input_nodes=data.train_mask, num_neighbors=[10, 5], shuffle=True, **kwargs)
    subgraph_loader = NeighborLoader(copy.copy(data), input_nodes=None, num_neighbors=[-1], shuffle=False, **kwargs)
    del subgraph_loader.data.x, subgraph_loader.data.y
    subgraph_loader.data.num_nodes = data.num_nodes
    subgraph_loader.data.n_id = torch.arange(data.num_nodes)
    assert len(subgraph_loader.dataset) == data.num_nodes
    assert len(train_loader.dataset) == int(data.train_mask.sum())
    model = Net(16, 32, 4)
    assert trained(model, train_loader, 8) > 0.8
    model.eval()
    with torch.no_grad():
        scores = model.layer_by_layer(data.x, subgraph_loader)
        torch.testing.assert_close(scores, model(data.x, data.edge_index), rtol=1e-4, atol=1e-5)
    assert "x" not in next(iter(subgraph_loader))
    assert (scores.argmax(1) == data.y)[data.test_mask].float().mean() > 0.8


def test_ogbn_products_sage(data):
    """Seeds as ids, labels [N, 1], three layers, and one loader for all evaluations."""
    data.y = data.y.unsqueeze(1)
    train_idx = data.train_mask.nonzero().view(-1)
    train_loader = NeighborLoader(
        data, input_nodes=train_idx, num_neighbors=[8, 5, 3], batch_size=64, shuffle=True, num_workers=2
    )
    subgraph_loader = NeighborLoader(data, input_nodes=None, num_neighbors=[-1], batch_size=128, num_workers=2)
    model = Net(16, 32, 32, 4)
    optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
    for _ in range(8):
        for batch in train_loader:
            optimizer.zero_grad()
            scores = model(batch.x, batch.edge_index)[: batch.batch_size].log_softmax(dim=-1)
            F.nll_loss(scores, batch.y[: batch.batch_size].squeeze()).backward()
            optimizer.step()
    model.eval()
    with torch.no_grad():
        scores = model.layer_by_layer(data.x, subgraph_loader)
        torch.testing.assert_close(scores, model(data.x, data.edge_index), rtol=1e-4, atol=1e-5)
    assert (scores.argmax(1) == data.y.squeeze())[data.test_mask].float().mean() > 0.8


def test_graph_sage_unsup(data):
    """Edges against drawn pairs: vectors of neighbours come to lie closer than those of strangers."""
    train_loader = LinkNeighborLoader(
        data, batch_size=256, shuffle=True, neg_sampling_ratio=1.0, num_neighbors=[10, 10]
    )
    model = Net(16, 32, 32)
    optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
    losses = []
    for _ in range(4):
        for batch in train_loader:
            optimizer.zero_grad()
            h = model(batch.x, batch.edge_index)
            likeness = (h[batch.edge_label_index[0]] * h[batch.edge_label_index[1]]).sum(dim=-1)
            loss = F.binary_cross_entropy_with_logits(likeness, batch.edge_label)
            loss.backward()
            optimizer.step()
            losses.append(loss.item())
    assert len(losses) == 4 * len(train_loader)
    assert sum(losses[-5:]) < 0.8 * sum(losses[:5])


def test_heterogeneous_examples_are_refused_by_name():
    """As `to_hetero_mag` asks: fan-outs by kind of edge, seeds by kind of vertex."""
    hetero = HeteroData()
    hetero["paper"].x = torch.ones(3, 2)
    hetero["paper", "cites", "paper"].edge_index = torch.tensor([[0, 1], [1, 2]])
    with pytest.raises(UserError, match=r"not a HeteroData \(several kinds of vertices or edges\); keep PyG's loader"):
        NeighborLoader(hetero, [5], input_nodes=("paper", None), batch_size=2, shuffle=True)


def test_temporal_examples_are_refused_by_name(data):
    """As `tgn` and the relational ones ask."""
    data.time = torch.arange(data.num_nodes)
    with pytest.raises(UserError, match="does not support time_attr='time': temporal sampling"):
        NeighborLoader(data, [5], time_attr="time", input_time=data.time, temporal_strategy="last")
