"""The CPU's source: rows as they are in the tensor, whoever picks them, and one sampler a thread at once."""

import threading

import numpy as np
import pytest
import torch

from gnnplan.profiles.kernels.csc import csc_from_edges
from gnnplan.profiles.kernels.sampling import NeighbourSampler, hop_key
from gnnplan.runtime.sampling import source as module
from gnnplan.runtime.sampling.blocks import BatchBlocks
from gnnplan.runtime.sampling.source import HostSource

EDGES = np.random.default_rng(0).integers(0, 50, (2, 400))
KEYS = [hop_key(0, 0, 0, hop) for hop in range(2)]
SEEDS = torch.arange(10)


def source(*, alone=True):
    """Over fifty vertices."""
    return HostSource(csc_from_edges(EDGES, 50), BatchBlocks(2), alone=alone)


@pytest.mark.parametrize("alone", [True, False])
@pytest.mark.parametrize(
    ("value", "dim"),
    [
        (torch.arange(150.0).reshape(50, 3), 0),
        (torch.arange(50), 0),
        (torch.arange(150.0).reshape(3, 50), 1),
        (torch.arange(150.0).reshape(3, 50).t(), 0),
        (np.arange(100).reshape(50, 2), 0),
        (torch.ones(50, 2, requires_grad=True), 0),
    ],
)
def test_rows_are_those_of_the_value(value, dim, alone):
    """Dense, along another dimension, by columns, in numpy, with gradients."""
    index = torch.tensor([4, 4, 49, 0])
    picked = source(alone=alone).rows(value, dim, index)
    expected = np.take(value if isinstance(value, np.ndarray) else value.detach().numpy(), index.numpy(), dim)
    np.testing.assert_array_equal(picked.detach() if isinstance(picked, torch.Tensor) else picked, expected)


def test_it_reads_host_memory():
    """So it is never what a resident plan is measured with."""
    assert not source().is_resident


def test_a_batch_is_the_samplers():
    """Whatever thread asks, one after another: one sampler serves them all."""
    host, alone = source(), NeighbourSampler(csc_from_edges(EDGES, 50))
    expected = alone.sample(SEEDS.numpy(), [3, 2], KEYS)
    for _ in range(3):
        done = host.sample(SEEDS, [3, 2], KEYS)
        assert torch.equal(done.n_id, expected.n_id)
        assert torch.equal(done.edge_index, expected.edge_index)
    assert len(host._samplers) == 1


def test_threads_at_once_have_a_sampler_each(monkeypatch):
    """As many as there were at once; one that fails is put back, and used again."""
    together = threading.Barrier(3, timeout=30)

    class Sampler:
        def __init__(self, graph):
            pass

        def sample(self, *_arguments):
            together.wait()
            raise MemoryError

    def ask():
        with pytest.raises(MemoryError):
            host.sample(SEEDS, [3, 2], KEYS)

    monkeypatch.setattr(module, "NeighbourSampler", Sampler)
    host = source()
    for _ in range(2):
        threads = [threading.Thread(target=ask) for _ in range(3)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(30)
        assert len(host._samplers) == 3
