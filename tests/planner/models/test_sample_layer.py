"""What is counted of a layer on sample rows says what it takes of others, and its memory is enough."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from torch.utils._python_dispatch import TorchDispatchMode

from gnnplan.planner.adjacency import layer_matrix
from gnnplan.planner.costs import OperatorCosts
from gnnplan.planner.program.kinds.layer import COUNTS, counted
from gnnplan.planner.program.own_layer import OwnLayer
from gnnplan.planner.readers.cost import COSTS
from gnnplan.planner.readers.temporaries import temporary_bytes
from gnnplan.profiles.catalog import catalog_profile
from tests.planner.models.own_layers import LAYERS
from tests.planner.models.trained_modules import composed, forward_of, made
from tests.planner.program.cases import partition, small_graph

NUM_ROWS, NUM_EDGES = 300, 2_000


class Made(TorchDispatchMode):
    """Bytes of all tensors that torch's operators return."""

    def __init__(self):
        super().__init__()
        self.num_bytes = 0

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        made = func(*args, **(kwargs or {}))
        storages = {x.untyped_storage().data_ptr() for x in args if isinstance(x, torch.Tensor)}
        for each in made if isinstance(made, tuple | list) else (made,):
            if isinstance(each, torch.Tensor) and each.untyped_storage().data_ptr() not in storages:
                self.num_bytes += each.numel() * each.element_size()
        return made


def layer_of(name):
    """The first layer of a module, its operator, and a larger graph's rows for it."""
    module = made(LAYERS[name])
    op = next(op for op in forward_of(module, small_graph()).programs["train"] if op.kind == "layer")
    layer, rng = module.get_submodule(op.attributes["module"]), np.random.default_rng(0)
    own = OwnLayer(layer, layer_matrix(NUM_ROWS, rng.integers(0, NUM_ROWS, (2, NUM_EDGES))), op.attributes)
    parameters = [each.detach().reshape(len(each) if each.dim() > 1 else 1, -1) for each in layer.parameters()]
    width = small_graph().num_features
    return op, own, [torch.randn(NUM_ROWS, width), *parameters]


@pytest.mark.parametrize("name", ["own, greatest", "own, loops and a number", "gatv2", "transformer", "gen"])
def test_bytes_are_those_of_a_larger_graph(name):
    """Forward and backward, to a tenth; never fewer but for rounding."""
    op, own, reads = layer_of(name)
    with Made() as forward:
        (out,) = own.forward(*reads)
    with Made() as backward:
        own.backward(torch.ones_like(out), *reads, of=(0,), wanted=range(len(reads)))
    for half, seen in enumerate((forward, backward)):
        said = counted(op.attributes, "num_bytes", NUM_ROWS, NUM_EDGES, back=bool(half))
        assert 0.9 * seen.num_bytes <= said <= 1.1 * seen.num_bytes


def test_readers_take_what_was_counted():
    """Seconds are guesses that grow with the edges; bytes are a temporary of each half."""
    module = made(LAYERS["own, greatest"])
    cycle = composed(module, small_graph(), 2, "halo_exchange", partition(2))
    t4 = OperatorCosts.of(catalog_profile("t4"))
    seconds = {}
    for op in cycle.programs["train"]:
        if op.kind not in ("layer", "layer_grad"):
            continue
        block = cycle.blocks[op.attributes["block"]]
        for worker in cycle.workers:
            edges = block.num_edges[worker] - cycle.spaces[block.row].sizes[worker]
            rows, back = cycle.spaces[block.column].sizes[worker], op.kind == "layer_grad"
            want = counted(op.attributes, "num_bytes", rows, edges, back=back)
            assert temporary_bytes(cycle, op, worker, on_cuda=False) == [want]
            assert want > 0
        once = COSTS[op.kind](cycle, op, 0, t4)
        assert once.unprofiled
        seconds[op.key] = once.seconds
        more = {**cycle.blocks, block.name: replace(block, num_edges=(10**7, 10**7))}
        assert COSTS[op.kind](replace(cycle, blocks=more), op, 0, t4).seconds > 10 * once.seconds
    assert len(seconds) == 4
    assert seconds["convs_0/layer/backward/layer_grad"] > seconds["convs_0/layer"]


def test_counts_are_of_both_halves():
    """For the call, a row and an edge; products are those of matrix products."""
    op, _, _ = layer_of("own, greatest")
    assert all(len(op.attributes[name]) == 2 for name in COUNTS)
    forward, backward = op.attributes["products"]
    width, hidden, out = small_graph().num_features, 6, op.attributes["width"]
    assert forward == (0, 0, 2 * width * hidden + hidden * out)
    assert backward == (0, 0, 3 * forward[2])
