"""Batches made by a GPU's kernels are the CPU's, attribute for attribute: interpreted where there is no GPU."""

import numpy as np
import pytest
import torch
from torch_geometric.data import Data

from planner.minibatch.cache import plan_cache
from profiles.errors import UserError
from runtime.sampling.loader import NeighborLoader
from runtime.sampling.presample import presample

pytest.importorskip("triton", reason="triton is not installed")

from runtime.sampling.device import DeviceSource

DEVICE = torch.device("cuda" if torch.cuda.is_available() else "cpu")


def loader(fan_outs=(4, 3), **options):
    """Eighty vertices with attributes of several kinds."""
    generator = torch.Generator().manual_seed(0)
    data = Data(
        x=torch.randn(80, 9, generator=generator),
        y=torch.arange(80),
        half=torch.randn(80, 3, generator=generator).half(),
        across=torch.randn(5, 80, generator=generator).t(),
        edge_index=torch.randint(0, 80, (2, 900), generator=generator),
        edge_attr=torch.randn(900, 2, generator=generator),
        name="whole",
    )
    return NeighborLoader(data, fan_outs, batch_size=20, shuffle=True, **options)


@pytest.mark.parametrize("budget_bytes", [None, 0, 2000, 10**6])
def test_gpu_makes_the_cpus_batches(budget_bytes):
    """Every attribute of every batch is equal, with no cache, an empty one, some rows, and all."""
    batches = loader()
    cache = None
    if budget_bytes is not None:
        degrees = np.diff(batches.graph.indptr)
        cache = plan_cache(presample(batches, 2), degrees, index_bytes=4, row_bytes=36, budget_bytes=budget_bytes)
    source = DeviceSource(batches.graph, DEVICE, cache=cache, cached=None if cache is None else batches.data.x)
    for epoch, index in ((0, 0), (0, 3), (1, 1)):
        cpu, gpu = batches.batch(epoch, index), batches.batch(epoch, index, source)
        assert gpu.x.device.type == gpu.across.device.type == DEVICE.type
        assert cpu.keys() == gpu.keys()
        for key in cpu.keys():  # noqa: SIM118 - of the batch, not of a dict
            same = torch.equal(cpu[key], gpu[key].cpu()) if torch.is_tensor(cpu[key]) else cpu[key] == gpu[key]
            assert same, key


def test_all_neighbours_are_refused():
    """In one line that says what can be asked for."""
    batches = loader((4, -1))
    with pytest.raises(UserError, match="fan-outs of 1 and more"):
        batches.batch(0, 0, DeviceSource(batches.graph, DEVICE))


def test_repeated_seeds_are_refused():
    """The CPU takes them; these kernels would number them wrongly."""
    batches = loader(input_nodes=torch.tensor([1, 1, 2]))
    with pytest.raises(UserError, match="all different"):
        batches.batch(0, 0, DeviceSource(batches.graph, DEVICE))
