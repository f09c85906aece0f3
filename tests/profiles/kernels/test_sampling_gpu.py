"""The Triton kernels make the CPU's batches, edge for edge: interpreted here, compiled where there is a GPU."""

import numpy as np
import pytest
import torch

from gnnplan.profiles.kernels.csc import csc_from_edges
from gnnplan.profiles.kernels.sampling import NeighbourSampler, hop_key

pytest.importorskip("triton", reason="triton is not installed")

from gnnplan.profiles.kernels.sampling_gpu import KeptEdges, gather, number, sample

DEVICE = torch.device("cuda" if torch.cuda.is_available() else "cpu")


def on_device(array):
    """An array as a tensor where the kernels run."""
    return torch.from_numpy(np.ascontiguousarray(array)).to(DEVICE)


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("fan_outs", [[3], [4, 2], [15, 10, 5]])
def test_a_batch_is_the_same_set_of_edges_in_the_same_order(seed, fan_outs):
    """Vertices, local ids, positions and counts are equal to the CPU's, for degrees from 0 to many."""
    rng = np.random.default_rng(seed)
    num_vertices = 200
    targets = np.minimum(rng.geometric(0.03, 4000), num_vertices) - 1
    graph = csc_from_edges(np.stack([rng.integers(0, num_vertices, 4000), targets]), num_vertices)
    seeds = rng.permutation(num_vertices)[:40]
    keys = [hop_key(seed, 1, 2, hop) for hop in range(len(fan_outs))]
    cpu = NeighbourSampler(graph).sample(seeds, fan_outs, keys)
    n_id, edge_index, positions, num_nodes, num_edges = sample(
        on_device(graph.indptr), on_device(graph.indices), on_device(seeds), fan_outs, keys
    )
    e_id = positions.cpu() if graph.edge_ids is None else torch.from_numpy(graph.edge_ids)[positions.cpu()]
    assert sum(num_edges) > 40
    assert (num_nodes, num_edges) == (cpu.num_nodes, cpu.num_edges)
    assert torch.equal(n_id.cpu(), cpu.n_id)
    assert torch.equal(edge_index.cpu(), cpu.edge_index)
    assert torch.equal(e_id, cpu.e_id)


@pytest.mark.parametrize("dtype", [torch.float16, torch.float32, torch.bfloat16, torch.int64])
@pytest.mark.parametrize("shape", [(50,), (50, 1), (50, 7), (50, 1500)])
def test_gathered_rows_are_the_rows(dtype, shape):
    """Any width and type, and none at all."""
    table = (torch.rand(shape, device=DEVICE) * 100).to(dtype)
    index = torch.randint(0, 50, (33,), device=DEVICE)
    assert torch.equal(gather(table, index), table[index])
    assert gather(table, index[:0]).shape == (0, *shape[1:])


def test_numbers_follow_first_appearance():
    """Known vertices keep theirs."""
    ids, found = number(torch.tensor([7, 3]), torch.tensor([5, 3, 9, 5, 0]))
    assert ids.tolist() == [2, 1, 3, 2, 4]
    assert found.tolist() == [7, 3, 5, 9, 0]


def test_kept_rows_are_read_from_the_device():
    """Rows with a slot come from what is kept (which differs here, to tell), the others from the table."""
    table, kept = torch.arange(12.0, device=DEVICE).reshape(6, 2), torch.full((2, 2), -1.0, device=DEVICE)
    index, slots = torch.tensor([5, 0, 3], device=DEVICE), torch.tensor([-1, 1, -1], device=DEVICE)
    assert gather(table, index, kept, slots).tolist() == [[10, 11], [-1, -1], [6, 7]]
    assert torch.equal(gather(table, index, kept[:0], slots), table[index])


def test_kept_edges_change_nothing():
    """With the in-neighbours of every other vertex on the device, the batch is the same."""
    rng = np.random.default_rng(0)
    graph = csc_from_edges(rng.integers(0, 100, (2, 1500)), 100)
    kept = np.arange(0, 100, 2)
    degrees = np.diff(graph.indptr)
    starts = np.full(100, -1)
    starts[kept] = np.cumsum(degrees[kept]) - degrees[kept]
    lists = [graph.indices[graph.indptr[v] : graph.indptr[v + 1]] for v in kept]
    edges = KeptEdges(on_device(np.concatenate(lists)), on_device(starts))
    arguments = (on_device(graph.indptr), on_device(graph.indices), on_device(np.arange(20)), [4, 2], [1, 2])
    for plain, cached in zip(sample(*arguments), sample(*arguments, edges), strict=True):
        assert torch.equal(plain, cached) if isinstance(plain, torch.Tensor) else plain == cached
