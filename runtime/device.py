"""Which device a worker of a plan uses."""

from __future__ import annotations

import os

import torch

from gnnplan.planner.plan import Plan
from gnnplan.profiles.errors import UserError


def pick_device(plan: Plan) -> torch.device:
    """The device that a plan has for this process; torchrun's environment says which."""
    place = plan.placement.workers[int(os.environ["RANK"])]
    profile = plan.placement.profiles[place.profile]
    if profile.device_kind == "cuda":
        found = torch.cuda.device_count()
        if place.device_index >= found:
            raise UserError(
                f"the plan needs CUDA device {place.device_index} of {place.host}, which has {found}; plan with a "
                f"profile of what is here"
            )
        device = torch.device("cuda", place.device_index)
        torch.cuda.set_device(device)
        return device
    torch.set_num_threads(int(os.environ.get("OMP_NUM_THREADS", "1")))
    return torch.device("cpu")
