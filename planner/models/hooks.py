"""Somebody's own code beside a layer: the equations that stand in for the layer know none."""

from __future__ import annotations

from torch import nn

from gnnplan.planner.models.lines import line_of_class
from gnnplan.planner.models.own_layers import has_no_equations
from gnnplan.planner.models.trace import Tracer
from gnnplan.profiles.errors import UserError


def check_hooks(module: nn.Module) -> None:
    """`UserError` where a part that has equations here has hooks, or the module itself.

    Hooks of layers that run by their own code are theirs, and those of containers are traced.
    """
    tracer, own = Tracer(), tuple(f"{path}." for path, part in module.named_modules() if has_no_equations(part))
    for path, part in module.named_modules():
        is_written = not path or tracer.is_leaf_module(part, path)
        if is_written and not f"{path}.".startswith(own) and _has_hooks(part):
            where = path or type(module).__name__
            raise UserError(f"{line_of_class(module)}: {where} has hooks, which are not known; remove them")


def _has_hooks(part: nn.Module) -> bool:
    """PyTorch's, and those that PyG's layers have for parts of a sum."""
    of_torch = (part._forward_hooks, part._forward_pre_hooks, part._backward_hooks, part._backward_pre_hooks)
    of_pyg = (each for name, each in vars(part).items() if name.endswith(("_forward_hooks", "_forward_pre_hooks")))
    return any(of_torch) or any(of_pyg)
