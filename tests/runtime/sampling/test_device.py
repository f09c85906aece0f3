"""Batches made by a GPU's kernels are the CPU's, attribute for attribute: interpreted where there is no GPU."""

import gc

import numpy as np
import pytest
import torch
from torch_geometric.data import Data

from gnnplan.planner.minibatch.cache import CachePlan, Sizes
from gnnplan.profiles.errors import UserError
from gnnplan.runtime.sampling.loader import NeighborLoader
from gnnplan.runtime.sampling.page_lock import PageLocks
from tests.runtime.sampling.test_page_lock import FakeRegistrar

pytest.importorskip("triton", reason="triton is not installed")

from gnnplan.runtime.sampling.device import DeviceSource, cached_source, resident_bytes, sizes_of, source_within

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


def assert_same_batches(batches, source, which=((0, 0), (0, 3), (1, 1))):
    """Of some (epoch, index): every attribute is the CPU's and lies on the device."""
    for epoch, index in which:
        cpu, gpu = batches.batch(epoch, index), batches.batch(epoch, index, source)
        assert gpu.x.device.type == gpu.across.device.type == DEVICE.type
        assert cpu.keys() == gpu.keys()
        for key in cpu.keys():  # noqa: SIM118 - of the batch, not of a dict
            same = torch.equal(cpu[key], gpu[key].cpu()) if torch.is_tensor(cpu[key]) else cpu[key] == gpu[key]
            assert same, key


@pytest.mark.long
@pytest.mark.parametrize("budget_bytes", [None, 0, 3000, 6000, 10**6])
def test_gpu_makes_the_cpus_batches(budget_bytes):
    """Every attribute of every batch is equal: no cache, one that has no room for pointers, some rows, and all."""
    batches = loader()
    if budget_bytes is None:
        assert_same_batches(batches, DeviceSource(batches.graph, DEVICE))
        return
    kept = cached_source(batches, DEVICE, budget_bytes)
    assert kept.num_bytes == kept.cache.num_bytes <= budget_bytes
    assert kept.cache.keeps_pointers == (budget_bytes > 0)
    num_kept = len(kept.cache.features) + len(kept.cache.adjacency)
    assert num_kept == {0: 0, 10**6: 80 + np.count_nonzero(np.diff(batches.graph.indptr))}.get(budget_bytes, num_kept)
    assert 0 < num_kept < 160 or budget_bytes not in (3000, 6000)
    assert_same_batches(batches, kept.source)


def test_what_is_kept_is_read_there():
    """Of every other vertex its in-neighbours and their edges, of every third its features; all else as before."""
    batches = loader()
    cache = CachePlan(
        adjacency=np.arange(0, 80, 2),
        features=np.arange(0, 80, 3),
        adjacency_bytes=0,
        feature_bytes=0,
        lookup_bytes=1,
        saved_bytes=0.0,
        read_bytes=1.0,
        gap=0.0,
    )
    source = DeviceSource(batches.graph, DEVICE, cache=cache, cached=batches.data.x)
    assert_same_batches(batches, source)
    source._edge_ids = torch.zeros(900, dtype=torch.int64, device=DEVICE)
    batch = batches.batch(0, 0, source)
    is_kept = batch.n_id[batch.edge_index[1]] % 2 == 0
    assert torch.equal(batch.e_id, batches.batch(0, 0).e_id.to(DEVICE) * is_kept)


def test_sizes_are_those_of_the_attributes():
    """The one whose rows are kept, and the others; edges that lie in order have no ids to read."""
    batches = loader()
    assert sizes_of(batches) == Sizes(index=4, row=36, edge_id=8, other_rows=(8, 6, 20), other_edges=(8,))
    in_order = Data(x=torch.zeros(3, 2), edge_index=torch.tensor([[1, 2, 0], [0, 1, 2]]))
    assert sizes_of(NeighborLoader(in_order, [1])) == Sizes(index=4, row=8)


def test_rows_that_cannot_be_gathered_are_not_planned_for():
    """`across` lies column by column: its bytes are read like those of any other, and its room is for adjacency."""
    batches = loader()
    assert sizes_of(batches, "across") == Sizes(index=4, row=0, edge_id=8, other_rows=(20, 36, 8, 6), other_edges=(8,))
    budget_bytes = 81 * 8 + 80 * 8 + 900 * (4 + 8)  # pointers, starts, and every list with its ids
    kept = cached_source(batches, DEVICE, budget_bytes, cached="across")
    assert len(kept.cache.features) == kept.cache.feature_bytes == 0
    assert len(kept.cache.adjacency) == np.count_nonzero(np.diff(batches.graph.indptr))
    assert kept.num_bytes == budget_bytes
    assert_same_batches(batches, kept.source)


def test_batches_from_the_device_alone_are_the_cpus():
    """With everything resident no host memory is locked, for none is read."""
    batches, registrar = large_loader(), FakeRegistrar()
    locks = PageLocks(registrar, copied=torch.clone)
    source = DeviceSource(batches.graph, DEVICE, resident=True, locks=locks)
    assert_same_batches(batches, source, [(0, 1)])
    assert source.is_resident
    assert not registrar.log


def large_loader():
    """Tables that are large enough to be locked where they lie."""
    generator = torch.Generator().manual_seed(0)
    data = Data(
        x=torch.randn(20_000, 9, generator=generator),
        across=torch.randn(5, 20_000, generator=generator).t(),
        edge_index=torch.randint(0, 20_000, (2, 50_000), generator=generator),
    )
    return NeighborLoader(data, [4, 3], batch_size=20)


@pytest.mark.skipif(DEVICE.type == "cuda", reason="a device cannot read what only a fake has locked")
@pytest.mark.parametrize("refusal", [None, "not here"])
def test_host_memory_is_locked_where_it_lies_and_let_go_with_the_source(refusal):
    """Edges, their ids and features, without a copy; where that is refused batches come from copies, and are equal."""
    batches, registrar, said = large_loader(), FakeRegistrar(refusal), []
    source = DeviceSource(batches.graph, DEVICE, locks=PageLocks(registrar, copied=torch.clone, say=said.append))
    assert not source.is_resident
    assert_same_batches(batches, source, [(0, 2)])
    arrays = [batches.graph.indices, batches.graph.edge_ids, batches.data.x.numpy()]
    assert registrar.ranges == ({} if refusal else {array.ctypes.data: array.nbytes for array in arrays})
    assert len(said) == (3 if refusal else 0)
    del source
    gc.collect()
    assert registrar.ranges == {}


@pytest.mark.skipif(DEVICE.type == "cuda", reason="a device cannot read what only a fake has locked")
@pytest.mark.parametrize(("budget_bytes", "on_device"), [(20_001 * 8, True), (20_001 * 8 - 1, False)])
def test_pointers_are_locked_where_a_cache_has_no_room_for_them(budget_bytes, on_device):
    """And read in host memory like the edges: what lies on the device stays within the budget, batches are equal."""
    batches, registrar = large_loader(), FakeRegistrar()
    cache = cached_source(batches, DEVICE, budget_bytes).cache
    locks = PageLocks(registrar, copied=torch.clone)
    source = DeviceSource(batches.graph, DEVICE, cache=cache, cached=batches.data.x, locks=locks)
    assert (batches.graph.indptr.ctypes.data in registrar.ranges) == (not on_device)
    assert cache.num_bytes == (budget_bytes if on_device else 0)
    assert_same_batches(batches, source, [(0, 2)])


def test_everything_lies_on_the_device_where_it_fits():
    """Just within the budget it is resident; with a byte less only what is read most is kept."""
    batches = loader()
    del batches.data.across
    batches = NeighborLoader(batches.data, [4, 3], batch_size=20)
    whole_bytes = resident_bytes(batches)
    tensors = [batches.data.x, batches.data.y, batches.data.half, batches.data.edge_attr]
    assert whole_bytes == 81 * 8 + 900 * (4 + 8) + sum(tensor.nbytes for tensor in tensors)
    fits, lacks = (source_within(batches, DEVICE, whole_bytes - less) for less in (0, 1))
    assert (fits.source.is_resident, fits.num_bytes, fits.cache) == (True, whole_bytes, None)
    assert not lacks.source.is_resident
    assert 0 < lacks.num_bytes < whole_bytes


def test_an_attribute_that_only_the_host_can_pick_from_keeps_a_graph_from_being_resident():
    """`across` lies column by column."""
    assert resident_bytes(loader()) is None
    assert not source_within(loader(), DEVICE, 10**9).source.is_resident


def test_what_is_to_be_kept_must_be_there():
    """Named in one line where it is not."""
    with pytest.raises(UserError, match="no tensor z with a row a vertex"):
        cached_source(loader(), DEVICE, 1000, cached="z")


@pytest.mark.parametrize("fan_out", [-1, 129])
def test_all_neighbours_and_very_many_are_refused(fan_out):
    """In one line that says what can be asked for."""
    batches = loader((4, fan_out))
    with pytest.raises(UserError, match=r"fan-outs of 1 to 128, not \[4, "):
        batches.batch(0, 0, DeviceSource(batches.graph, DEVICE))


def test_repeated_seeds_are_refused():
    """The CPU takes them; these kernels would number them wrongly."""
    batches = loader(input_nodes=torch.tensor([1, 1, 2]))
    with pytest.raises(UserError, match="all different"):
        batches.batch(0, 0, DeviceSource(batches.graph, DEVICE))
