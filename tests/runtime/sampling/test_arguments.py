"""What a loader refuses: each in one clear line."""

import numpy as np
import pytest
import torch
from torch_geometric.data import Data, HeteroData

from gnnplan.profiles.errors import UserError
from gnnplan.runtime.sampling import NeighborLoader

EDGES = torch.tensor([[0, 1, 2], [1, 2, 3]])


def graph(**values):
    return Data(**{"edge_index": EDGES, "num_nodes": 4, **values})


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"input_nodes": torch.tensor([], dtype=torch.int64)}, "names no vertex"),
        ({"input_nodes": torch.zeros(4, dtype=torch.bool)}, "names no vertex"),
        ({"input_nodes": torch.ones(3, dtype=torch.bool)}, "mask of 3 vertices, the graph has 4"),
        ({"input_nodes": torch.tensor([0, 4])}, "input_nodes holds vertex 4, outside 0..3"),
        ({"input_nodes": torch.tensor([-1, 2])}, "input_nodes holds vertex -1, outside 0..3"),
        ({"input_nodes": torch.tensor([0.5])}, "input_nodes must be vertex ids"),
        ({"num_neighbors": []}, "num_neighbors is empty"),
        ({"num_neighbors": [3, 0]}, "num_neighbors holds 0"),
        ({"num_neighbors": [-2]}, "num_neighbors holds -2"),
        ({"num_neighbors": [10**20]}, "num_neighbors holds 100000000000000000000; give 1 to 2147483647"),
        ({"batch_size": 0}, "batch_size is 0"),
        ({"num_neighbors": 5}, "num_neighbors must be whole numbers, one a hop, such as [10, 5], found 5"),
        ({"num_neighbors": [2.7]}, "one a hop, such as [10, 5], found [2.7]"),
        ({"num_neighbors": torch.tensor([2.7])}, "found tensor([2.7000])"),
        ({"num_neighbors": {("a", "to", "a"): [2]}}, "one a hop, such as [10, 5], found {('a', 'to', 'a'): [2]}"),
        ({"num_neighbors": {0: 2}}, "one a hop, such as [10, 5], found {0: 2}"),
        ({"batch_size": 32.5}, "batch_size is 32.5; give a whole number"),
        ({"num_workers": None}, "num_workers is None; give a whole number"),
        ({"data": HeteroData()}, "samples one homogeneous torch_geometric Data, not a HeteroData"),
        ({"data": (1, 2)}, "samples one homogeneous torch_geometric Data, not a tuple"),
        ({"num_workers": -1}, "num_workers is -1"),
        ({"timeout": -1}, "timeout is -1; give seconds, or 0 for no limit"),
        ({"timeout": float("nan")}, "timeout is nan; give seconds"),
        ({"timeout": "9"}, "timeout is '9'; give seconds"),
        ({"prefetch_factor": 0}, "prefetch_factor is 0"),
        ({"data": Data(x=torch.ones(4, 1))}, "no edge_index"),
        ({"data": graph(edge_index=EDGES.float())}, "edge_index must be int64 or int32"),
        ({"data": graph(edge_index=EDGES + 1)}, "edge_index holds vertex 4, outside 0..3"),
        ({"subgraph_type": "star"}, "subgraph_type is 'star'; give one of directional, bidirectional, induced"),
        ({"input_time": torch.arange(4)}, "NeighborLoader does not support input_time=tensor([0, 1, 2, 3]): temporal"),
        ({"time_attr": "t"}, "does not support time_attr='t': temporal sampling"),
        ({"temporal_strategy": "last"}, "does not support temporal_strategy='last': temporal sampling"),
        (
            {"neighbor_sampler": abs},
            "does not support neighbor_sampler=<built-in function abs>: this loader is a sampler",
        ),
        (
            {"transform_sampler_output": abs},
            "does not support transform_sampler_output=<built-in function abs>: batches",
        ),
        ({"batchsize": 5}, "NeighborLoader has no keyword batchsize, and neither has PyG's; did you mean batch_size?"),
        ({"colour": 5}, "NeighborLoader has no keyword colour, and neither has PyG's; leave it out"),
        ({"batch_sampler": [[0]], "shuffle": True}, "NeighborLoader: batch_sampler option is mutually exclusive with"),
        ({"sampler": [0], "shuffle": True}, "NeighborLoader: sampler option is mutually exclusive with shuffle"),
        ({"weight_attr": "w"}, "weight_attr is 'w', and the graph has no such attribute"),
        ({"weight_attr": "w", "data": graph(w=torch.ones(2))}, "w must hold one weight an edge, [3], found [2]"),
        ({"weight_attr": "w", "data": graph(w=torch.tensor([1.0, -1, 1]))}, "w holds a weight that is negative or not"),
        ({"weight_attr": "w", "data": graph(w=torch.tensor([1.0, 0, 1]))}, "all edges into vertex 2 have weight 0"),
        ({"input_id": torch.arange(3)}, "input_id must name each of the 4 seeds, found [3]"),
        ({"data": graph(names=["a", "b", "c", "d"])}, "attribute names is a list"),
    ],
)
def test_bad_arguments_are_refused_in_one_line(arguments, message):
    """The error names the argument and its value, in one line."""
    with pytest.raises(UserError) as caught:
        NeighborLoader(**{"data": graph(), "num_neighbors": [2], **arguments})
    assert message in str(caught.value)
    assert "\n" not in str(caught.value)


def test_keywords_of_pyg_that_change_nothing_are_taken():
    """What a loop for its loader has may stay there."""
    given = {"persistent_workers": True, "is_sorted": True, "filter_per_worker": False, "transform": None}
    given |= {"replace": False, "disjoint": False, "subgraph_type": "directional", "directed": True}
    (batch,) = NeighborLoader(graph(), [1], [2, 0], batch_size=2, **given)
    assert batch.n_id[:2].tolist() == [2, 0]


def test_negative_epochs_are_refused():
    """An epoch is counted from 0."""
    with pytest.raises(UserError, match="epoch is -1"):
        NeighborLoader(graph(), [2]).set_epoch(-1)


@pytest.mark.parametrize("input_nodes", [[2, 0], (2, 0), torch.tensor([2, 0], dtype=torch.int32)])
def test_seeds_in_any_integer_form(input_nodes):
    """Lists, tuples and int32 tensors are seeds as int64 tensors are."""
    (batch,) = NeighborLoader(graph(), [1], input_nodes, batch_size=2)
    assert batch.n_id[:2].tolist() == [2, 0]


@pytest.mark.parametrize("fan_outs", [(2, 1), torch.tensor([2, 1]), [np.int64(2), 1]])
def test_fan_outs_in_any_integer_form(fan_outs):
    """And sizes, which are plain integers from there on."""
    loader = NeighborLoader(graph(), fan_outs, batch_size=np.int64(2))
    assert loader.num_neighbors == [2, 1]
    assert type(loader.batch_size) is int
    assert len(loader) == 2


def test_a_sampler_that_is_given_chooses():
    """Also one of torch's own classes, which `shuffle` would have made."""
    sampler = torch.utils.data.RandomSampler(range(4), replacement=True, num_samples=6)
    loader = NeighborLoader(graph(), [1], batch_size=1, sampler=sampler)
    torch.manual_seed(1)
    drawn = [int(batch) for batch in torch.utils.data.DataLoader(range(4), sampler=sampler)]
    torch.manual_seed(1)
    assert [int(batch.n_id[0]) for batch in loader] == drawn
