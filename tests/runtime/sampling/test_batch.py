"""A batch's attributes: the rows of its vertices and edges, and all that PyG's loader puts beside them."""

import numpy as np
import pytest
import torch
import torch_geometric.typing as pyg_typing
from torch_geometric.data import Data
from torch_geometric.loader import NeighborLoader as PygNeighborLoader
from torch_geometric.utils import k_hop_subgraph

from gnnplan.runtime.sampling import NeighborLoader

N, E = 60, 300
HAS_BACKEND = pyg_typing.WITH_PYG_LIB or pyg_typing.WITH_TORCH_SPARSE


def graph():
    """Random edges in random order, attributes of many kinds."""
    generator = torch.Generator().manual_seed(0)
    return Data(
        x=torch.randn(N, 5, generator=generator),
        y=torch.arange(N),
        half=torch.randn(N, 3, generator=generator).bfloat16(),
        array=np.arange(2 * N).reshape(N, 2),
        across=torch.randn(5, N, generator=generator).t(),
        edge_index=torch.randint(0, N, (2, E), generator=generator),
        edge_attr=torch.randn(E, 2, generator=generator),
        name="whole",
        scale=torch.tensor([1.0, 2.0]),
    )


@pytest.mark.parametrize("num_workers", [0, 2])
def test_attributes_are_the_rows_of_the_batch(num_workers):
    """Node-level attributes are those of n_id, edge-level ones those of e_id, others stay; types are kept."""
    data = graph()
    batches = list(NeighborLoader(data, [3, 2], batch_size=25, num_workers=num_workers))
    for batch in batches:
        assert torch.equal(batch.n_id[batch.edge_index], data.edge_index[:, batch.e_id])
        for key in ("x", "y", "half", "across"):
            assert torch.equal(batch[key], data[key][batch.n_id])
            assert batch[key].dtype == data[key].dtype
        assert (batch.array == torch.from_numpy(data.array[batch.n_id])).all()
        assert torch.equal(batch.edge_attr, data.edge_attr[batch.e_id])
        assert (batch.name, batch.scale.tolist()) == ("whole", [1.0, 2.0])
        assert batch.num_nodes == len(batch.n_id) == sum(batch.num_sampled_nodes)
        assert batch.num_edges == len(batch.e_id) == sum(batch.num_sampled_edges)
    assert len(batches) == 3
    assert "n_id" not in data


def test_rows_of_attributes_have_sizes():
    """In bytes a vertex and bytes an edge, whatever type they have and however they lie."""
    of_vertex, of_edge = NeighborLoader(graph(), [1]).row_bytes()
    assert of_vertex == {"x": 20, "y": 8, "half": 6, "array": 16, "across": 20}
    assert of_edge == {"edge_attr": 8}


def test_number_of_vertices_is_the_batchs():
    """A graph that states num_nodes gives batches that state their own."""
    data = Data(edge_index=torch.tensor([[0, 1], [1, 2]]), num_nodes=10)
    batch = next(iter(NeighborLoader(data, [1], [2])))
    assert batch.num_nodes == 2
    assert data.num_nodes == 10


def test_names_of_seeds_are_pygs():
    """input_id is the position among ids given, and the vertex where a mask is given."""
    data, mask = graph(), torch.zeros(N, dtype=torch.bool)
    mask[[4, 9, 11]] = True
    by_mask = next(iter(NeighborLoader(data, [1], mask, batch_size=2)))
    by_index = next(iter(NeighborLoader(data, [1], torch.tensor([4, 9, 11]), batch_size=2)))
    assert by_mask.input_id.tolist() == by_mask.n_id[:2].tolist() == [4, 9]
    assert by_index.input_id.tolist() == [0, 1]
    assert by_index.n_id[:2].tolist() == [4, 9]
    assert (by_mask.batch_size, by_index.batch_size) == (2, 2)


@pytest.mark.parametrize("num_hops", [1, 2, 3])
def test_all_neighbours_are_pygs_k_hop_subgraph(num_hops):
    """With fan-out -1 the vertices are those PyG finds within k hops, and each one's in-edges are all there."""
    data, seeds = graph(), torch.tensor([3, 40])
    batch = next(iter(NeighborLoader(data, [-1] * num_hops, seeds, batch_size=2)))
    subset, *_ = k_hop_subgraph(seeds, num_hops, data.edge_index, num_nodes=N, flow="source_to_target")
    assert sorted(batch.n_id.tolist()) == subset.tolist()
    inner, *_ = k_hop_subgraph(seeds, num_hops - 1, data.edge_index, num_nodes=N, flow="source_to_target")
    expected = torch.isin(data.edge_index[1], inner).nonzero().view(-1)
    assert sorted(batch.e_id.tolist()) == expected.tolist()


@pytest.mark.skipif(not HAS_BACKEND, reason="PyG's own loader needs pyg-lib or torch-sparse to sample")
@pytest.mark.parametrize("kind", ["all", "ids", "mask"])
def test_all_neighbours_are_those_of_pygs_loader(kind):
    """With fan-out -1 nothing is random: each batch equals PyG's, edges of a target in any order."""
    data = graph()
    del data.array, data.across
    seeds = {"all": None, "ids": torch.tensor([9, 3, 40]), "mask": torch.arange(N) % 3 == 0}[kind]
    ours = list(NeighborLoader(data, [-1, -1], seeds, batch_size=2))
    theirs = list(PygNeighborLoader(data, num_neighbors=[-1, -1], input_nodes=seeds, batch_size=2))
    assert len(ours) == len(theirs) > 1
    for mine, pygs in zip(ours, theirs):
        assert set(pygs.keys()) <= set(mine.keys())
        assert set(mine.keys()) - set(pygs.keys()) <= {"num_sampled_nodes", "num_sampled_edges"}
        assert mine.batch_size == pygs.batch_size
        assert torch.equal(mine.input_id, pygs.input_id)
        assert mine.n_id[: mine.batch_size].tolist() == pygs.n_id[: mine.batch_size].tolist()
        assert sorted(mine.n_id.tolist()) == sorted(pygs.n_id.tolist())
        assert sorted(mine.e_id.tolist()) == sorted(pygs.e_id.tolist())
        for key in ("num_sampled_nodes", "num_sampled_edges"):
            assert key not in pygs or list(mine[key]) == list(pygs[key])
        for key in pygs.keys():  # noqa: SIM118  Data iterates over pairs
            if isinstance(pygs[key], torch.Tensor):
                assert (mine[key].dtype, mine[key].shape) == (pygs[key].dtype, pygs[key].shape)
