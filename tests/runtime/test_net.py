"""What workers have of a model: its state by name, trained where it lies."""

import pytest
import torch
from torch import nn

from gnnplan.planner.models.cloned import cloned
from gnnplan.runtime.net import Net
from tests.planner.models.own_modules import MODULES
from tests.planner.models.trained_modules import forward_of, made
from tests.planner.program.cases import small_graph


class Tied(nn.Module):
    """One weight under two names."""

    def __init__(self, num_features, num_classes):
        super().__init__()
        self.first = nn.Linear(num_features, num_classes)
        self.second, self.third = nn.Linear(num_classes, num_classes), nn.Linear(num_classes, num_classes)
        self.third.weight = self.second.weight

    def forward(self, x, edge_index):
        return self.third(self.second(self.first(x)).relu())


def net_of(module):
    return Net(module.state_dict(), forward_of(module, small_graph()), torch.device("cpu"))


@pytest.mark.parametrize("name", MODULES)
def test_the_state_is_the_modules(name):
    """Every key and shape, so that it loads strictly; parameters by name as the module has them."""
    module = made(MODULES[name])
    net, want = net_of(module), module.state_dict()
    assert {key: value.shape for key, value in net.state_dict().items()} == {k: v.shape for k, v in want.items()}
    module.load_state_dict(net.state_dict(), strict=True)
    assert [each.shape for each in net.parameters()] == [net.state[key].shape for key, _ in net.named_parameters()]
    assert {key for key, _ in net.named_parameters()} == {key for key, _ in module.named_parameters()}


def test_what_is_trained_stays_one():
    """A parameter with two names is one in the program, and both names have what was trained."""
    module = made(Tied)
    net = net_of(module)
    assert [key for key, _ in net.named_parameters()] == [
        "first.weight",
        "first.bias",
        "second.weight",
        "second.bias",
        "third.bias",
    ]
    net.matrices["second.weight"].fill_(7)
    state = net.state_dict()
    assert (state["third.weight"] == 7).all()
    assert torch.equal(state["second.weight"], state["third.weight"])


def test_running_statistics_are_cells():
    """They begin as the module's, and go back to its buffers with the number of epochs."""
    module = made(MODULES["arxiv, gcn"])
    module.bns[0].running_mean.fill_(3)
    net = net_of(module)
    assert (net.matrices["bns.0.running"][0] == 3).all()
    assert (net.matrices["bns.0.running"][1] == 1).all()
    net.matrices["bns.0.running"].fill_(5)
    net.epochs = 4
    state = net.state_dict()
    assert (state["bns.0.running_mean"] == 5).all()
    assert state["bns.0.num_batches_tracked"] == 4


def test_a_shared_norm_has_its_statistics_under_both_names():
    """As the weights that a run begins with have them, which are copies."""
    module = made(MODULES["shared layers"])
    net = Net(cloned(module.state_dict()), forward_of(module, small_graph()), torch.device("cpu"))
    (cell,) = (name for name in net.matrices if name.endswith("running"))
    net.matrices[cell].fill_(7)
    net.epochs = 4
    state = net.state_dict()
    assert all((state[f"norms.{number}.running_mean"] == 7).all() for number in range(2))
    assert [int(state[f"norms.{number}.num_batches_tracked"]) for number in range(2)] == [4, 4]
