"""What training begins with: of PyG's model for the job's kind, or of the user's module."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gnnplan.planner.job import Job
from gnnplan.planner.models.module_source import module_of

if TYPE_CHECKING:
    from torch import Tensor


def first_weights(job: Job, num_features: int, num_classes: int) -> dict[str, Tensor]:
    """A `state_dict` of its own on the CPU, equal for equal seeds.

    Raises `UserError` as `module_of` does.
    """
    if job.model.kind == "module":
        net = module_of(job.model, num_features, num_classes, job.training.seed)
    else:
        from gnnplan.planner.models.pyg_models import build_pyg_model  # it imports PyG, which takes seconds

        net = build_pyg_model(job.model, num_features, num_classes, job.training.seed)
    return {name: value.detach().cpu().clone() for name, value in net.state_dict().items()}
