"""What partial reduce holds beside halo exchange: the last rows of every exchange, and rows on their way."""

from __future__ import annotations

from planner.costs import FLOAT_BYTES
from planner.program import Program
from planner.shapes import WorkerShape


def mailbox_bytes(program: Program, shape: WorkerShape) -> int:
    """Host bytes of one worker, at most.

    Rows received are held twice (the version in use and the one that arrives), rows sent at most twice a peer
    (one being sent, one that waits). Backward the halo's gradients are sent and those of the rows sent received;
    constants have none.
    """
    rows = 2 * (shape.num_halo + shape.num_sent)
    steps = [step for step in program.steps if step.op in ("aggregate", "exchange")]
    return FLOAT_BYTES * sum(rows * step.in_width * (1 if step.constant else 2) for step in steps)
