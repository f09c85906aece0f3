"""The loader as a whole: the same batches from any number of threads, epochs, ends, and a model that learns."""

import gc
import threading
import time

import pytest
import torch
from torch_geometric.data import Data
from torch_geometric.nn.models import GraphSAGE

from gnnplan.planner.generate import generate_sbm
from gnnplan.planner.graph_spec import SbmGraph
from gnnplan.profiles.errors import RunFailedError
from gnnplan.runtime.sampling import NeighborLoader
from gnnplan.runtime.sampling.batch import BatchMaker


def sbm(num_nodes=400):
    spec = SbmGraph(
        source="sbm", num_nodes=num_nodes, average_degree=12, num_classes=4, num_features=16, feature_signal=3.0
    )
    made = generate_sbm(spec)
    edge_index = torch.from_numpy(made.edge_index).long()
    return Data(x=torch.from_numpy(made.x), y=torch.from_numpy(made.y), edge_index=edge_index)


@pytest.fixture(scope="module")
def data():
    return sbm()


def assert_equal_batches(ones, others):
    """Every attribute of every batch is equal."""
    assert len(ones) == len(others) > 0
    for one, other in zip(ones, others):
        assert one.keys() == other.keys()
        for key in one.keys():  # noqa: SIM118  Data iterates over pairs
            same = torch.equal(one[key], other[key]) if isinstance(one[key], torch.Tensor) else one[key] == other[key]
            assert same, key


def sampling_threads():
    return [thread for thread in threading.enumerate() if thread.name.startswith("gnnplan-sampling")]


@pytest.mark.parametrize("num_workers", [1, 2, 5])
def test_batches_are_the_same_for_any_number_of_threads(data, num_workers):
    """Two shuffled epochs from threads equal those of the calling thread, batch by batch."""
    alone = NeighborLoader(data, [4, 3], batch_size=32, shuffle=True, seed=7)
    threaded = NeighborLoader(data, [4, 3], batch_size=32, shuffle=True, seed=7, num_workers=num_workers)
    for _ in range(2):
        assert_equal_batches(list(alone), list(threaded))


def test_epochs_differ_and_come_again(data):
    """The next iteration draws and orders anew; set_epoch gives an epoch again; another seed is another run."""
    loader = NeighborLoader(data, [3], batch_size=100, shuffle=True)
    first, second = list(loader), list(loader)
    assert first[0].input_id.tolist() != second[0].input_id.tolist()
    loader.set_epoch(0)
    assert_equal_batches(first, list(loader))
    assert_equal_batches(second, list(loader))
    other_seed = next(iter(NeighborLoader(data, [3], batch_size=100, shuffle=True, seed=1)))
    assert other_seed.input_id.tolist() != first[0].input_id.tolist()


def test_draws_differ_between_epochs_in_the_same_order(data):
    """Without shuffling the seeds stay and the neighbours drawn change."""
    loader = NeighborLoader(data, [3], batch_size=400)
    (first,), (second,) = loader, loader
    assert torch.equal(first.input_id, second.input_id)
    assert first.e_id.tolist() != second.e_id.tolist()


@pytest.mark.parametrize("num_workers", [0, 2])
def test_other_seeds_share_the_graph(data, num_workers):
    """All of them in order, as a loader of their own has them, without sorting the graph again or running ahead."""
    given = {"batch_size": 32, "seed": 7, "num_workers": num_workers}
    loader = NeighborLoader(data, [4, 3], torch.arange(200), shuffle=True, drop_last=True, **given)
    before = list(loader)
    other = loader.with_seeds(torch.arange(300, 370))
    assert other.graph is loader.graph
    assert len(other) == 3
    assert_equal_batches(list(other), list(NeighborLoader(data, [4, 3], torch.arange(300, 370), **given)))
    assert other._max_in_flight == max(1, num_workers) <= loader._max_in_flight
    loader.set_epoch(0)
    assert_equal_batches(before, list(loader))


@pytest.mark.parametrize(("shuffle", "num_workers"), [(False, 0), (True, 0), (True, 2)])
@pytest.mark.parametrize("drop_last", [False, True])
def test_every_seed_once_an_epoch(data, shuffle, num_workers, drop_last):
    """Seeds come once each; the last batch is what is left over, or left out where asked."""
    seeds = torch.arange(0, 370, 2)  # 185: five batches of 32 and one of 25
    loader = NeighborLoader(
        data, [2], seeds, batch_size=32, shuffle=shuffle, drop_last=drop_last, num_workers=num_workers
    )
    batches = list(loader)
    sizes = [32] * 5 if drop_last else [32] * 5 + [25]
    assert len(loader) == len(batches)
    assert [batch.batch_size for batch in batches] == sizes
    given = torch.cat([batch.n_id[: batch.batch_size] for batch in batches]).tolist()
    assert len(set(given)) == len(given) == sum(sizes)
    assert set(given) <= set(seeds.tolist())
    assert torch.equal(seeds[torch.cat([batch.input_id for batch in batches])], torch.tensor(given))
    assert (given == seeds[: len(given)].tolist()) != shuffle


def test_batches_stay_as_they_are_while_kept(data):
    """A list of all batches, far more than wait at a time, holds what each was when it came."""
    loader = NeighborLoader(sbm(3000), [15, 10], batch_size=200, num_workers=2, prefetch_factor=1)
    kept, sums = [], []
    for batch in loader:
        kept.append(batch)
        sums.append((batch.x.sum().item(), batch.edge_index.sum().item(), batch.e_id.sum().item()))
    assert [(b.x.sum().item(), b.edge_index.sum().item(), b.e_id.sum().item()) for b in kept] == sums
    assert kept[0].x.numel() * 4 > 128 * 1024  # large enough for its memory to be used again


def test_error_in_a_thread_reaches_the_consumer(data, monkeypatch):
    """A batch that fails in a thread raises where it is asked for, with its cause; no thread is left."""
    make = BatchMaker.make

    def failing(self, source, seeds, input_id, epoch, batch, seed):
        if batch == 2:
            raise MemoryError("no room for batch 2")
        return make(self, source, seeds, input_id, epoch, batch, seed)

    monkeypatch.setattr(BatchMaker, "make", failing)
    batches = iter(NeighborLoader(data, [2], batch_size=50, num_workers=2))
    assert [next(batches).batch_size for _ in range(2)] == [50, 50]
    with pytest.raises(RunFailedError, match="batch 2 failed: MemoryError: no room") as caught:
        next(batches)
    assert isinstance(caught.value.__cause__, MemoryError)
    assert not sampling_threads()


def test_loop_left_early_leaves_no_threads(data):
    """After a break the threads end by themselves, and the loader gives whole epochs again."""
    loader = NeighborLoader(data, [2], batch_size=5, num_workers=3)
    for _ in loader:
        break
    gc.collect()
    deadline_s = time.monotonic() + 5
    while sampling_threads() and time.monotonic() < deadline_s:
        time.sleep(0.01)
    assert not sampling_threads()
    assert len(list(loader)) == len(loader) == 80


@pytest.mark.parametrize("num_workers", [0, 2])
def test_iterators_can_be_closed_and_run_side_by_side(data, num_workers):
    """Two iterators of one loader do not disturb each other; a closed one ends at once."""
    loader = NeighborLoader(data, [3], batch_size=50, num_workers=num_workers)
    first, second = iter(loader), iter(loader)
    sides = [(next(first), next(second)) for _ in range(8)]
    assert sum(one.batch_size for one, _ in sides) == sum(other.batch_size for _, other in sides) == 400
    third = iter(loader)
    next(third)
    third.close()
    assert list(third) == []
    loader.set_epoch(0)
    assert_equal_batches([one for one, _ in sides], list(loader))
    assert_equal_batches([other for _, other in sides], list(loader))


def test_a_model_learns_from_the_batches(data):
    """GraphSAGE trained on sampled batches tells the planted classes apart, from chance (0.25) to above 0.8."""
    torch.manual_seed(0)
    is_train = torch.arange(400) % 2 == 0
    model = GraphSAGE(16, 32, num_layers=2, out_channels=4)
    optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
    loader = NeighborLoader(data, [8, 4], is_train, batch_size=50, shuffle=True, num_workers=2)
    for _ in range(15):
        for batch in loader:
            optimizer.zero_grad()
            logits = model(batch.x, batch.edge_index)[: batch.batch_size]
            torch.nn.functional.cross_entropy(logits, batch.y[: batch.batch_size]).backward()
            optimizer.step()
    with torch.no_grad():
        right = model(data.x, data.edge_index).argmax(1) == data.y
    assert right[~is_train].float().mean() > 0.8


def test_repeated_seeds_are_known():
    """Of ids; a mask repeats none, nor do the seeds of another loader on the same graph."""
    data = Data(edge_index=torch.tensor([[0, 1, 2], [1, 2, 3]]), num_nodes=4)
    twice = NeighborLoader(data, [2], torch.tensor([1, 2, 1]))
    assert twice.repeats_seeds
    assert not NeighborLoader(data, [2]).repeats_seeds
    assert not twice.with_seeds(torch.tensor([True, True, False, True])).repeats_seeds


def test_a_batch_that_does_not_come_is_not_waited_for_for_ever(monkeypatch):
    """Of the loader itself, and of one with other seeds."""
    monkeypatch.setattr("gnnplan.runtime.sampling.pipeline._JOIN_S", 0.1)
    gate = threading.Event()
    monkeypatch.setattr(BatchMaker, "make", lambda *_arguments: gate.wait(60))
    data = Data(edge_index=torch.tensor([[0, 1, 2], [1, 2, 3]]), num_nodes=4)
    loader = NeighborLoader(data, [2], num_workers=1, timeout=0.2)
    try:
        for each in (loader, loader.with_seeds([1, 2])):
            with pytest.raises(RunFailedError, match="batch 0 was not sampled within"):
                next(iter(each))
    finally:
        gate.set()
