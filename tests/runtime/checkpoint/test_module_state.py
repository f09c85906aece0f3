"""torch's own modules and optimizers go on as if they had never stopped."""

import numpy as np
import pytest
import torch

from gnnplan.runtime.checkpoint.module_state import ModuleState

CPU = torch.device("cpu")
OPTIMIZERS = {
    "adam": lambda parameters: torch.optim.Adam(parameters, 0.1),
    "momentum": lambda parameters: torch.optim.SGD(parameters, 0.1, momentum=0.9),
    "sgd": lambda parameters: torch.optim.SGD(parameters, 0.1),
}


def trained(net, optimizer, num_steps):
    """With dropout, so that torch's generator matters."""
    for _ in range(num_steps):
        optimizer.zero_grad()
        torch.nn.functional.dropout(net(torch.ones(4, 3)), 0.5).square().sum().backward()
        optimizer.step()


@pytest.mark.parametrize("make", OPTIMIZERS.values(), ids=OPTIMIZERS)
def test_it_goes_on(make):
    torch.manual_seed(0)
    net = torch.nn.Linear(3, 2)
    optimizer = make(net.parameters())
    state = ModuleState(net, optimizer, CPU)
    trained(net, optimizer, 2)
    held = {
        name: np.array(each) if isinstance(each, np.ndarray) else each.detach().numpy().copy()
        for name, each in state.held().items()
    }
    for name, (shape, dtype) in state.like().items():
        assert held[name].dtype == dtype
        assert len(held[name].shape) == len(shape)
    trained(net, optimizer, 2)
    other = torch.nn.Linear(3, 2)
    another = make(other.parameters())
    ModuleState(other, another, CPU).put(held)
    trained(other, another, 2)
    assert torch.equal(net.weight, other.weight)
