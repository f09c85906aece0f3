"""What a worker needs beside its program: its rows of the inputs, and the module that is trained."""

from __future__ import annotations

from typing import Any

import scipy.sparse as sp
import torch
from torch import Tensor, nn

from gnnplan.planner.models.module_source import module_of
from gnnplan.planner.plan import Plan
from gnnplan.planner.program.cycle import Cycle
from gnnplan.planner.program.whole import runs_module
from gnnplan.runtime.execution.sparse_rows import SparseRows


def on_device(value: Any, device: torch.device) -> Tensor | SparseRows:
    """Dense rows as a tensor, scipy's CSR as sparse rows."""
    return SparseRows(value, device) if sp.issparse(value) else torch.from_numpy(value).to(device)


def place_of(cycle: Cycle, name: str, device: torch.device) -> torch.device:
    """Where an input of a worker lies: on its device, or in its host's memory."""
    return torch.device("cpu") if cycle.values[name].tier == "pinned" else device


def planned_module(plan: Plan) -> nn.Module | None:
    """The user's module, of a plan with layers that run their own code; its file is imported."""
    if not runs_module(plan.cycle.cycle()):
        return None
    facts = plan.graph
    return module_of(plan.job.model, facts.num_features, facts.num_classes, plan.job.training.seed)
