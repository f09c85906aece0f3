"""Where in somebody's file a module stands."""

from __future__ import annotations

import inspect

import torch


def line_of_class(module: torch.nn.Module) -> str:
    """`file:line` at which a module's class begins."""
    try:
        return f"{inspect.getsourcefile(type(module))}:{inspect.getsourcelines(type(module))[1]}"
    except (OSError, TypeError):
        return type(module).__name__
