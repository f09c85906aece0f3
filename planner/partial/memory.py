"""What partial reduce holds beside halo exchange: last rows, rows on their way, and sums of steps that were missed."""

from __future__ import annotations

from gnnplan.planner.cluster import Placement
from gnnplan.planner.costs import FLOAT_BYTES
from gnnplan.planner.hybrid.sizes import Replicas
from gnnplan.planner.hybrid.steps import step_levels
from gnnplan.planner.plan import Plan
from gnnplan.planner.shapes import WorkerShape
from gnnplan.planner.steps import Program


def mailbox_bytes(program: Program, shape: WorkerShape, rank: int = 0, replicas: Replicas | None = None) -> int:
    """Host bytes of one worker's rows, at most.

    Rows received are held twice (the version in use and the one that arrives), rows sent at most twice a peer
    (one being sent, one that waits). Backward the halo's gradients are sent and those of the rows sent received;
    constants have none.

    Args:
        replicas: of all workers, where they make some rows of their halos and never decide again which.
    """
    steps = [step for step in program.steps if step.op in ("aggregate", "exchange")]
    rows = {step.name: shape.num_halo + shape.num_sent for step in steps}
    if replicas is not None:
        levels = step_levels(program, replicas.first)
        sizes = {step.name: replicas.size(rank, levels.rows[step.name]) for step in steps}
        rows = {name: size.num_fetched + size.num_sent for name, size in sizes.items()}
    return FLOAT_BYTES * sum(2 * rows[step.name] * step.in_width * (1 if step.constant else 2) for step in steps)


def sums_bytes(program: Program, max_staleness: int, num_epochs: int) -> int:
    """Host bytes of gradient sums, at most.

    A worker may come back to the sums of all rounds that it may be missing from, and may have as many of its own
    pieces waiting for others that are missing.
    """
    return 2 * min(max_staleness, num_epochs) * FLOAT_BYTES * (program.num_parameters + 1)


def mean_bytes(program: Program, average_epochs: int) -> int:
    """Device bytes of the mean of the weights, where one is made."""
    return FLOAT_BYTES * program.num_parameters if average_epochs else 0


def on_device(num_bytes: int, placement: Placement, rank: int) -> int:
    """Of a worker's mailbox what its device has to hold: none on CUDA, where it lies in the host's memory."""
    return 0 if placement.profile_of(rank).device_kind == "cuda" else num_bytes


def mailbox_bytes_of(plan: Plan, rank: int) -> int:
    """All of a plan's worker; where rows are decided again online, any of them may travel."""
    assert plan.layered.partial is not None
    program, fixed = plan.program(), plan.layered.dependencies.adjust == "none"
    rows = mailbox_bytes(program, plan.shapes[rank], rank, plan.replicas if fixed else None)
    return rows + sums_bytes(program, plan.layered.partial.max_staleness, plan.job.training.epochs)
