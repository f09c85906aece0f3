"""The conv that stands in for PyG's: the numbers of the planned training, and PyG's own where nothing moves."""

from itertools import pairwise

import pytest
import torch
from torch_geometric.nn import GCNConv

from gnnplan.planner.techniques.source_chunks.decision import Chunks
from gnnplan.profiles.errors import UserError
from gnnplan.runtime.moving import MovingGCNConv, SourceChunks
from gnnplan.runtime.reference import dense_features
from tests.planner.program.cases import initial
from tests.planner.techniques.source_chunks.chunked import MODELS, RATE, Chunked


class Net(torch.nn.Module):
    """A module of one's own."""

    def __init__(self, chunks, widths=(5, 6, 6, 3)):
        super().__init__()
        self.convs = torch.nn.ModuleList(MovingGCNConv(a, b, chunks=chunks) for a, b in pairwise(widths))

    def forward(self, x, edge_index):
        for conv in self.convs[:-1]:
            x = conv(x, edge_index).relu()
        return self.convs[-1](x, edge_index)


def trained(chunks, num_steps=8):
    """Losses of some steps of SGD on the small graph, and the model."""
    chunked = Chunked("gcn", Chunks(), num_steps=num_steps)
    graph, net = chunked.case.graph, Net(chunks)
    net.load_state_dict(initial(chunked.case.model))
    x, edges = torch.from_numpy(dense_features(graph)), torch.from_numpy(graph.edge_index)
    mask, y, losses = torch.from_numpy(graph.train_mask), torch.from_numpy(graph.y), []
    optimizer = torch.optim.SGD(net.parameters(), RATE)
    for _ in range(num_steps):
        optimizer.zero_grad()
        loss = torch.nn.functional.cross_entropy(net(x, edges)[mask], y[mask])
        loss.backward()
        optimizer.step()
        chunks.step()
        losses.append(float(loss.detach()))
    return losses, net, (x, edges)


@pytest.mark.parametrize("num_chunks", [1, 3])
def test_trains_as_a_plan_in_chunks(num_chunks, monkeypatch):
    """Losses of the oracle of the pass, which has no module; without dropout."""
    monkeypatch.setitem(MODELS, "gcn", MODELS["gcn"].model_copy(update={"dropout": 0.0}))
    oracle = Chunked("gcn", Chunks(num_chunks=num_chunks, seed=4)).oracle()
    losses, _, _ = trained(SourceChunks(num_chunks, seed=4))
    assert losses == pytest.approx(oracle.train(8), rel=1e-5)


def test_evaluation_is_pygs_and_moves_nothing():
    """The same state_dict in PyG's own conv gives the same rows."""
    _, net, (x, edges) = trained(SourceChunks(3))
    before = [conv.state.clone() for conv in net.convs]
    net.eval()
    plain = torch.nn.ModuleList(GCNConv(conv.in_channels, conv.out_channels) for conv in net.convs)
    plain.load_state_dict(net.convs.state_dict())
    h = x
    with torch.no_grad():
        for number, conv in enumerate(plain):
            h = conv(h, edges).relu() if number < 2 else conv(h, edges)
        torch.testing.assert_close(net(x, edges), h)
    assert all(torch.equal(old, conv.state) for old, conv in zip(before, net.convs, strict=True))


def test_another_graph_begins_anew():
    """A state of one graph says nothing of another."""
    conv = MovingGCNConv(4, 2, chunks=SourceChunks(2))
    x, edges = torch.randn(6, 4), torch.tensor([[0, 1, 2, 3], [1, 2, 3, 4]])
    conv(x, edges)
    first = conv.state
    conv(x[:5], edges[:, :3])
    assert conv.state.shape == (5, 2)
    assert first.shape == (6, 2)


def test_what_cannot_be_is_refused():
    """In a line."""
    with pytest.raises(UserError, match="must be 1 or more"):
        SourceChunks(0)
    with pytest.raises(UserError, match="source_to_target"):
        MovingGCNConv(2, 2, chunks=SourceChunks(2), flow="target_to_source")


def test_an_equal_graph_is_the_same_one():
    """Tensors that are made anew in each step keep the state."""
    chunks = SourceChunks(2)
    conv, twin = MovingGCNConv(4, 2, chunks=chunks), MovingGCNConv(4, 2, chunks=chunks)
    twin.load_state_dict(conv.state_dict())
    x, edges = torch.randn(6, 4), torch.tensor([[0, 1, 2, 3], [1, 2, 3, 4]])
    for _ in range(3):
        assert torch.equal(conv(x, edges), twin(x, edges.clone()))
        chunks.step()


def test_weights_of_edges_that_are_trained_are_refused():
    conv, weight = MovingGCNConv(4, 2, chunks=SourceChunks(2)), torch.ones(4, requires_grad=True)
    edges = torch.tensor([[0, 1, 2, 3], [1, 2, 3, 4]])
    with pytest.raises(UserError, match="no gradient for edge_weight"):
        conv(torch.randn(6, 4), edges, weight)
    conv(torch.randn(6, 4), edges, weight.detach())
