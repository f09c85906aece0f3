"""Functions of elements and their slopes are torch's, in place too."""

import pytest
import torch
from torch.nn import functional

from gnnplan.planner.program.kinds.functions import FUNCTIONS as KNOWN
from gnnplan.planner.program.kinds.functions import OF_OUTPUT
from gnnplan.profiles.kernels.functions import FUNCTIONS

ARGUMENTS = {
    "leaky_relu": [(0.2,)],
    "elu": [(1.5, 1.0, 1.0), (1.6732632423543772, 1.0507009873554805, 1.0)],
    "gelu": [("none",), ("tanh",)],
    "softplus": [(1.0, 20.0), (2.0, 1.0)],
    "hardtanh": [(0.0, 6.0)],
}
CASES = [(name, arguments) for name in FUNCTIONS for arguments in ARGUMENTS.get(name, [()])]


def by_torch(name, x, arguments):
    """The same function with torch's own signature."""
    if name == "gelu":
        return functional.gelu(x, approximate=arguments[0])
    if name == "elu":
        alpha, scale, _ = arguments
        return scale * functional.elu(x, alpha)
    return getattr(functional if hasattr(functional, name) else torch, name)(x, *arguments)


def test_the_table_is_the_planners():
    """What a program may name is what can be executed."""
    assert FUNCTIONS.keys() == KNOWN


@pytest.mark.parametrize("in_place", [False, True])
@pytest.mark.parametrize(("name", "arguments"), CASES, ids=str)
def test_values_and_slopes_are_torchs(name, arguments, in_place):
    """On both sides of zero, and at zero."""
    x = torch.cat([torch.randn(400), torch.zeros(3)]).view(31, 13)
    grad, leaf = torch.randn(31, 13), x.clone().requires_grad_()
    want = by_torch(name, leaf, arguments)
    want.backward(grad)
    out = x.clone() if in_place else torch.empty_like(x)
    FUNCTIONS[name].apply(out if in_place else x, out, *arguments)
    assert torch.allclose(out, want, rtol=1e-5, atol=1e-6)
    kept, slope = out.clone() if name in OF_OUTPUT else x, grad.clone() if in_place else torch.empty_like(grad)
    FUNCTIONS[name].apply_slope(slope if in_place else grad, kept, slope, *arguments)
    assert torch.allclose(slope, leaf.grad, rtol=1e-5, atol=1e-6)
