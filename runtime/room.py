"""Whether a worker's device has the memory that its plan was made for, before anything is loaded."""

from __future__ import annotations

import torch

from gnnplan.planner.plan import Plan
from gnnplan.profiles.errors import UserError
from gnnplan.profiles.memory import worker_memory_bytes


def check_room(plan: Plan, rank: int, device: torch.device, num_workers_here: int) -> None:
    """`UserError` where the device has less memory than the plan says that the worker needs.

    A CUDA device must have as much free, and its host what its GPUs keep there; of a CPU's memory a worker has its
    part, as when it is profiled, and of its host's region for halo rows too.

    Args:
        num_workers_here: of this host, by whom its memory is shared.
    """
    planned_bytes = plan.prediction.workers[rank].peak_bytes
    if device.type == "cuda":
        found_bytes = torch.cuda.mem_get_info(device)[0]
        _check_host(plan, rank)
    else:
        found_bytes = worker_memory_bytes(device, num_workers_here)
        layout = plan.region_layouts().get(plan.placement.workers[rank].host)
        planned_bytes += layout.num_bytes // num_workers_here if layout else 0
    if found_bytes < planned_bytes:
        raise UserError(
            f"worker {rank} ({plan.placement.workers[rank].host}) was planned to need {planned_bytes:,} bytes of its "
            f"device and finds {found_bytes:,}; plan again with a profile of what is here, or with memory_bytes set"
        )


def _check_host(plan: Plan, rank: int) -> None:
    """`UserError` where a host has less memory left than its GPUs keep rows in."""
    host = plan.placement.workers[rank].host
    needed_bytes = plan.pinned_bytes().get(host, 0)
    found_bytes = worker_memory_bytes(torch.device("cpu"), 1)
    if found_bytes < needed_bytes:
        raise UserError(
            f"host {host} was planned to keep {needed_bytes:,} bytes of its GPUs' rows and edges and has "
            f"{found_bytes:,} in all; plan again with pinned_bytes of the host set"
        )
