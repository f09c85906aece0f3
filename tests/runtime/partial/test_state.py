"""A state that is taken over is the whole state: from there on steps are the same bit for bit."""

import pytest
import torch

from planner.job import TrainingSpec
from runtime.partial.state import packed_state, unpack_state_
from runtime.reference import build_optimizer


def optimizer_of(kind, seed):
    generator = torch.Generator().manual_seed(seed)
    parameters = [torch.nn.Parameter(torch.randn(shape, generator=generator)) for shape in ((4, 3), (4,), (2, 4))]
    return build_optimizer(parameters, TrainingSpec(optimizer=kind, weight_decay=0.01), fused=True)


def step(optimizer, seed):
    generator = torch.Generator().manual_seed(seed)
    for parameter in optimizer.param_groups[0]["params"]:
        parameter.grad = torch.randn(parameter.shape, generator=generator)
    optimizer.step()


@pytest.mark.parametrize("kind", ["adam", "sgd"])
def test_who_takes_a_state_over_steps_on_alike(kind):
    """Weights, moments and the count of steps are all in it."""
    ahead, behind = optimizer_of(kind, 1), optimizer_of(kind, 2)
    for seed in (10, 11, 12):
        step(ahead, seed)
    step(behind, 20)
    assert not torch.equal(packed_state(ahead), packed_state(behind))
    unpack_state_(behind, packed_state(ahead))
    for seed in (13, 14):
        assert torch.equal(packed_state(ahead), packed_state(behind))
        step(ahead, seed)
        step(behind, seed)


def test_a_state_of_another_size_is_refused():
    """An optimizer that has not stepped yet has no moments."""
    ahead = optimizer_of("adam", 1)
    step(ahead, 3)
    with pytest.raises(ValueError, match="75 numbers came, this worker's has 24"):
        unpack_state_(optimizer_of("adam", 1), packed_state(ahead))
