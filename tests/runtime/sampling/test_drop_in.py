"""The loader where PyG's stood: torch's seeds, samplers and hooks, edits of its data, and every keyword."""

import inspect
import threading

import pytest
import torch
from torch.utils.data import DataLoader, WeightedRandomSampler
from torch_geometric.data import Data
from torch_geometric.loader import NeighborLoader as PygNeighborLoader
from torch_geometric.loader import NodeLoader
from torch_geometric.sampler.base import SubgraphType

from gnnplan.profiles.errors import UserError
from gnnplan.runtime.sampling import NeighborLoader, keywords
from gnnplan.runtime.sampling.keywords import KEYWORDS
from tests.runtime.sampling.test_loader import assert_equal_batches

N = 50


@pytest.fixture
def data():
    generator = torch.Generator().manual_seed(1)
    return Data(
        x=torch.randn(N, 3, generator=generator),
        edge_index=torch.randint(0, N, (2, 400), generator=generator),
        weight=torch.rand(400, generator=generator) + 0.1,
    )


def taken(loader, seed=None):
    if seed is not None:
        torch.manual_seed(seed)
    return list(loader)


def test_it_is_a_data_loader(data):
    """With its data set, sampler and length; lightning and progress bars ask for these."""
    loader = NeighborLoader(data, [3], range(30), batch_size=8, shuffle=True, drop_last=True)
    assert isinstance(loader, DataLoader)
    assert (len(loader.dataset), len(loader), loader.batch_size, loader.drop_last) == (30, 3, 8, True)
    assert loader.generator is None
    assert "30 seeds, 3 batches" in repr(loader)


@pytest.mark.parametrize("num_workers", [0, 2])
def test_epochs_follow_torchs_seed(data, num_workers):
    """The same seed gives the same epoch, of one loader or of another; another seed and the next epoch do not."""
    loader = NeighborLoader(data, [2], batch_size=10, shuffle=True, num_workers=num_workers)
    first, again, other = taken(loader, 5), taken(loader, 5), taken(loader, 6)
    assert_equal_batches(first, again)
    assert_equal_batches(first, taken(NeighborLoader(data, [2], batch_size=10, shuffle=True), 5))
    assert [b.input_id.tolist() for b in first] != [b.input_id.tolist() for b in other]
    torch.manual_seed(5)
    one, two = list(loader), list(loader)
    assert_equal_batches(first, one)
    assert [b.input_id.tolist() for b in one] != [b.input_id.tolist() for b in two]


def test_draws_follow_torchs_seed_without_shuffling(data):
    """Not the order alone."""
    loader = NeighborLoader(data, [2], batch_size=N)
    (one,), (same,), (other,) = taken(loader, 5), taken(loader, 5), taken(loader, 6)
    assert torch.equal(one.e_id, same.e_id)
    assert one.e_id.tolist() != other.e_id.tolist()


@pytest.mark.parametrize("with_generator", [False, True])
def test_seeds_come_in_the_order_of_a_data_loader(data, with_generator):
    """By the same seed or generator, over two epochs: PyG's loader is a DataLoader over positions."""

    def generator():
        return torch.Generator().manual_seed(9) if with_generator else None

    ours = NeighborLoader(data, [2], batch_size=7, shuffle=True, generator=generator())
    torchs = DataLoader(range(N), batch_size=7, shuffle=True, generator=generator())
    torch.manual_seed(3)
    wanted = [batch.tolist() for _ in range(2) for batch in torchs]
    torch.manual_seed(3)
    assert [batch.input_id.tolist() for _ in range(2) for batch in ours] == wanted


def test_a_generators_epoch_comes_again(data):
    """After set_epoch, as it was drawn; torch's own generator is left alone."""
    loader = NeighborLoader(data, [2], batch_size=10, shuffle=True, generator=torch.Generator().manual_seed(2))
    before = torch.random.get_rng_state()
    first, second = list(loader), list(loader)
    assert torch.equal(torch.random.get_rng_state(), before)
    loader.set_epoch(0)
    assert_equal_batches(first, list(loader))
    assert_equal_batches(second, list(loader))
    assert_equal_batches(first[2:3], [loader.batch(0, 2)])


def test_edits_of_its_data_count(data):
    """As PyG's evaluation loops make them: attributes go and come, also between epochs, and the graph stays."""
    loader = NeighborLoader(data.clone(), [-1], batch_size=20)
    del loader.data.x
    loader.data.num_nodes = N
    loader.data.n_id = torch.arange(N) + 1000
    (first, *_) = loader
    assert "x" not in first
    assert torch.equal(first.n_id[:20], torch.arange(20) + 1000)
    assert first.num_nodes == len(first.n_id)
    loader.data.x = torch.arange(float(N))
    (second, *_) = loader
    assert torch.equal(second.x, (second.n_id - 1000).float())
    assert "x" in loader.sliced()


@pytest.mark.parametrize(("num_workers", "filter_per_worker"), [(0, None), (2, None), (2, True)])
def test_a_batch_is_transformed(data, num_workers, filter_per_worker):
    """Where it is taken, or in its thread where that is asked for; `batch` and a call give it too."""
    seen = []

    def doubled(batch):
        seen.append(threading.current_thread().name)
        batch.x = 2 * batch.x
        return batch

    given = {"batch_size": 10, "num_workers": num_workers, "seed": 0}
    loader = NeighborLoader(data, [2], transform=doubled, filter_per_worker=filter_per_worker, **given)
    for ours, plain in zip(loader, NeighborLoader(data, [2], **given), strict=True):
        assert torch.equal(ours.x, 2 * plain.x)
    assert any(name.startswith("gnnplan-sampling") for name in seen) == bool(filter_per_worker)
    assert torch.equal(loader.batch(0, 1).x, 2 * data.x[loader.batch(0, 1).n_id])


def test_a_call_makes_the_batch_of_some_positions(data):
    """As PyG's loader is called."""
    batch = NeighborLoader(data, [2], torch.tensor([9, 8, 7]))([2, 0])
    assert batch.n_id[:2].tolist() == [7, 9]
    assert batch.input_id.tolist() == [2, 0]
    assert batch.batch_size == 2


@pytest.mark.parametrize("num_workers", [0, 2])
def test_positions_are_chosen_by_a_sampler(data, num_workers):
    """One by one, or whole batches of different sizes; both anew every epoch."""
    batches = NeighborLoader(data, [2], batch_sampler=[[3, 1], [4], [0, 2, 5]], num_workers=num_workers)
    assert (len(batches), batches.batch_size) == (3, None)
    assert [b.input_id.tolist() for b in batches] == [[3, 1], [4], [0, 2, 5]]
    drawn = WeightedRandomSampler([1.0] * 5 + [0.0] * (N - 5), 40)
    single = NeighborLoader(data, [2], sampler=drawn, batch_size=16, num_workers=num_workers)
    one, two = (torch.cat([b.input_id for b in single]) for _ in range(2))
    assert [b.batch_size for b in single] == [16, 16, 8]
    assert max(one.tolist()) < 5
    assert one.tolist() != two.tolist()


def test_iterations_side_by_side_keep_their_own_batches(data):
    """Also where a sampler draws them."""
    loader = NeighborLoader(data, [2], sampler=WeightedRandomSampler([1.0] * N, 40), batch_size=10)
    torch.manual_seed(0)
    one, two = iter(loader), iter(loader)
    sides = [(next(one).input_id, next(two).input_id) for _ in range(4)]
    torch.manual_seed(0)
    assert [b.input_id.tolist() for b in loader] == [first.tolist() for first, _ in sides]
    assert [b.input_id.tolist() for b in loader] == [second.tolist() for _, second in sides]


def test_other_seeds_of_a_loader_with_batches_of_its_own(data):
    """All of them in order, one by one."""
    loader = NeighborLoader(data, [2], batch_sampler=[[3, 1], [4]])
    other = loader.with_seeds([5, 6])
    assert [b.n_id[0].item() for b in other] == [5, 6]
    assert len(other.dataset) == len(other) == 2
    assert len(loader) == 2


def test_threads_begin_with_a_function(data):
    """Each once, with its number; what it raises ends the iteration."""
    begun = []
    list(NeighborLoader(data, [2], batch_size=2, num_workers=3, worker_init_fn=begun.append))
    assert set(begun) <= {0, 1, 2}
    assert len(set(begun)) == len(begun) > 0

    def failing(number):
        raise MemoryError(f"thread {number}")

    with pytest.raises(Exception, match="MemoryError: thread"):
        list(NeighborLoader(data, [2], num_workers=1, worker_init_fn=failing))


def test_trees_and_weights_reach_the_batch(data):
    """As PyG names them."""
    (batch,) = NeighborLoader(data, [3, 2], range(6), batch_size=6, disjoint=True, weight_attr="weight", replace=True)
    assert torch.equal(batch.batch[batch.edge_index[0]], batch.batch[batch.edge_index[1]])
    assert torch.equal(batch.weight, data.weight[batch.e_id])
    assert int((batch.edge_index[1] == 0).sum()) == 3


@pytest.mark.parametrize("given", [{"subgraph_type": SubgraphType.induced}, {"directed": False}])
def test_induced_by_either_keyword(data, given):
    """PyG's enumeration, its words, and the keyword that it had before."""
    (batch,) = NeighborLoader(data, [3], range(6), batch_size=6, seed=0, **given)
    (words,) = NeighborLoader(data, [3], range(6), batch_size=6, seed=0, subgraph_type="induced")
    assert torch.equal(batch.edge_index, words.edge_index)
    assert "num_sampled_edges" not in batch


def test_a_device_samples_the_plain_way_alone(data):
    """Whoever asks it for more is told."""
    with pytest.raises(UserError, match="a device draws neighbours without replacement"):
        NeighborLoader(data, [3], replace=True).batch(0, 0, source=object())


def test_names_of_seeds_are_given(data):
    """In place of their positions."""
    (batch,) = NeighborLoader(data, [3], [4, 2], batch_size=2, input_id=torch.tensor([40, 20]))
    assert batch.input_id.tolist() == [40, 20]


def keywords_of_pyg():
    """Of its loader, of the class below it, and of torch's, by name: their default."""
    found = {}
    for each in (PygNeighborLoader, NodeLoader, DataLoader):
        found |= {
            p.name: p.default for p in inspect.signature(each.__init__).parameters.values() if p.kind != p.VAR_KEYWORD
        }
    return {name: default for name, default in found.items() if name not in ("self", "node_sampler")}


def test_every_keyword_of_pyg_is_known():
    """Those of the version that is installed, and no others."""
    assert keywords_of_pyg().keys() == KEYWORDS.keys()


@pytest.mark.parametrize("name", sorted(KEYWORDS.keys() - {"data", "num_neighbors", "dataset"}))
def test_a_default_of_pyg_is_taken(data, name):
    """Whoever writes a keyword's default out is not refused for it."""
    default = keywords_of_pyg()[name]
    (batch, *_) = NeighborLoader(data, [2], **{name: default})
    assert batch.batch_size == 1


@pytest.mark.parametrize("name", [name for name, each in KEYWORDS.items() if each.status == "refused"])
def test_what_is_refused_is_named_with_its_reason(data, name):
    """The keyword, its value, why."""
    with pytest.raises(UserError, match=rf"does not support {name}='ask': .*; leave it out"):
        NeighborLoader(data, [2], **{name: "ask"})


@pytest.mark.parametrize("name", [name for name, each in KEYWORDS.items() if each.status == "changes nothing"])
def test_what_changes_nothing_changes_nothing(data, name):
    """Batches are the same with it."""
    ours, plain = NeighborLoader(data, [2], seed=1, **{name: True}), NeighborLoader(data, [2], seed=1)
    assert_equal_batches(list(ours), list(plain))


def test_the_table_in_the_docs_is_current():
    """It is made of what the loader goes by."""
    assert keywords.main(["--check"]) == 0, "run python -m gnnplan.runtime.sampling.keywords"
