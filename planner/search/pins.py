"""What a job pins that its cluster cannot be."""

from __future__ import annotations

from gnnplan.planner.job import Job
from gnnplan.profiles.errors import UserError


def check_least_group(job: Job, num_workers: int) -> None:
    """`UserError` where a job pins more workers as the least group than there are."""
    least = job.pin.partial_reduce.min_group if job.pin.partial_reduce else None
    if least and least > num_workers:
        raise UserError(f"{job.name}: pin.partial_reduce.min_group is {least}, and there are {num_workers} workers")
