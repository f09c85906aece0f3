"""Presampling counts every read of the batches that it makes."""

import torch
from torch_geometric.data import Data

from gnnplan.runtime.sampling.loader import NeighborLoader
from gnnplan.runtime.sampling.presample import presample


def loader(batch_size=10):
    """Thirty vertices, random edges."""
    generator = torch.Generator().manual_seed(0)
    data = Data(x=torch.zeros(30, 2), edge_index=torch.randint(0, 30, (2, 200), generator=generator))
    return NeighborLoader(data, [3, 2], batch_size=batch_size)


def test_reads_are_those_of_the_batches():
    """As many edges and rows as the batches have, at the vertices that drew them."""
    counted = presample(loader(), 2)
    batches = [loader().batch(0, index) for index in range(2)]
    assert counted.num_batches == 2
    assert counted.edge_reads.sum() == sum(batch.num_edges for batch in batches)
    for vertex in range(30):
        assert counted.feature_reads[vertex] == sum(int((batch.n_id == vertex).sum()) for batch in batches)
        drawn = sum(int((batch.n_id[batch.edge_index[1]] == vertex).sum()) for batch in batches)
        assert counted.edge_reads[vertex] == drawn


def test_an_epoch_with_fewer_batches_is_counted_whole():
    """Three batches, not five."""
    assert presample(loader(), 5).num_batches == 3


def test_batches_are_taken_from_all_over_the_epoch():
    """Seeds in order of two halves that share no neighbour: both are counted, as often."""
    ring = torch.arange(40)
    sources = torch.cat([ring.roll(1), ring.roll(1) + 40])
    data = Data(x=torch.zeros(80, 2), edge_index=torch.stack([sources, torch.arange(80)]))
    counted = presample(NeighborLoader(data, [1], batch_size=4), 10)
    assert counted.num_batches == 10
    first, second = counted.feature_reads[:40].sum(), counted.feature_reads[40:].sum()
    assert first == second > 0
    assert counted.edge_reads[:40].sum() == counted.edge_reads[40:].sum() > 0
