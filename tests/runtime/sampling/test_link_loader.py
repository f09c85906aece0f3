"""PyG's loader of links with our sampler inside: labels, negative edges, what is refused."""

import pytest
import torch
from torch_geometric.data import Data, HeteroData
from torch_geometric.loader import NodeLoader

from gnnplan.profiles.errors import UserError
from gnnplan.runtime.sampling import LinkNeighborLoader
from gnnplan.runtime.sampling.link_loader import PygSampler

N, E = 30, 90


@pytest.fixture
def data():
    generator = torch.Generator().manual_seed(0)
    edge_index = torch.randint(0, N, (2, E), generator=generator)
    return Data(x=torch.randn(N, 3, generator=generator), edge_index=edge_index, edge_attr=torch.arange(float(E)))


@pytest.mark.parametrize("num_workers", [0, 1])
def test_batches_hold_edges_and_as_many_that_are_not(data, num_workers):
    """Each with its label; rows and edges are those of the graph."""
    batches = list(
        LinkNeighborLoader(data, [3, 2], batch_size=40, neg_sampling_ratio=1.0, num_workers=num_workers, shuffle=True)
    )
    assert [len(batch.edge_label) for batch in batches] == [80, 80, 20]
    for batch in batches:
        assert torch.equal(batch.x, data.x[batch.n_id])
        assert torch.equal(batch.n_id[batch.edge_index], data.edge_index[:, batch.e_id])
        assert torch.equal(batch.edge_attr, data.edge_attr[batch.e_id])
        positive = batch.n_id[batch.edge_label_index[:, batch.edge_label == 1]]
        assert torch.equal(positive, data.edge_index[:, batch.input_id])


def test_epochs_follow_torchs_seed(data):
    """Order, negative edges and draws."""
    loader = LinkNeighborLoader(data, [2], batch_size=30, neg_sampling_ratio=1.0, shuffle=True)
    runs = []
    for seed in (1, 1, 2):
        torch.manual_seed(seed)
        runs.append([(batch.input_id.tolist(), batch.e_id.tolist()) for batch in loader])
    assert runs[0] == runs[1] != runs[2]


def test_wishes_reach_the_sampler(data):
    """Trees of their own, other edges, and a hook."""
    given = {"edge_label_index": data.edge_index[:, :4], "batch_size": 4}
    (batch,) = LinkNeighborLoader(data, [2], disjoint=True, transform=lambda batch: batch.update({"seen": 1}), **given)
    assert torch.equal(batch.batch[batch.edge_index[0]], batch.batch[batch.edge_index[1]])
    assert batch.seen == 1
    (induced,) = LinkNeighborLoader(data, [2], directed=False, is_sorted=False, **given)
    inside = torch.isin(data.edge_index, induced.n_id).all(0)
    assert induced.num_edges == int(inside.sum())


def test_the_sampler_serves_pygs_node_loader(data):
    """It is a sampler like any other of PyG's."""
    (batch,) = NodeLoader(data, PygSampler(data, [-1]), torch.tensor([4, 7]), batch_size=2)
    assert batch.n_id[:2].tolist() == [4, 7]
    assert batch.num_edges == int(torch.isin(data.edge_index[1], torch.tensor([4, 7])).sum())
    assert torch.equal(batch.x, data.x[batch.n_id])


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"time_attr": "t"}, "does not support time_attr: temporal"),
        ({"edge_label_time": torch.arange(E)}, "does not support edge_label_time: temporal"),
        ({"neighbor_sampler": object()}, "does not support neighbor_sampler"),
        ({"data": HeteroData()}, "not a HeteroData"),
        ({"num_neighbors": [0]}, "num_neighbors holds 0"),
        ({"weight_attr": "w"}, "weight_attr is 'w'"),
    ],
)
def test_what_is_not_there_is_refused(data, given, message):
    """By name."""
    with pytest.raises(UserError, match=message):
        LinkNeighborLoader(**{"data": data, "num_neighbors": [2], **given})


@pytest.mark.parametrize("vertex", [-1, 100])
def test_vertices_outside_the_graph_are_refused(data, vertex):
    """The sampler's loops look at no bounds."""
    loader = LinkNeighborLoader(data, [2], edge_label_index=torch.tensor([[0], [vertex]]))
    with pytest.raises(UserError, match=f"holds vertex {vertex}, outside 0..{N - 1}"):
        next(iter(loader))
