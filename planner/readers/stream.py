"""A program whose operators are stages of mini-batches, as a schedule: every stage of every batch is a task."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import accumulate

from gnnplan.planner.minibatch.policy import Buffers, DualBufferPolicy
from gnnplan.planner.minibatch.unroll import unrolled
from gnnplan.planner.program.cycle import Cycle, Program
from gnnplan.planner.program.kinds import KINDS
from gnnplan.planner.program.parts import Operator
from gnnplan.planner.schedule import Category, Schedule, Task

_STAGES = {"cpu_batch", "gpu_batch", "transfer", "train"}


def is_streamed(program: Program) -> bool:
    """Whether batch after batch passes through a program's operators."""
    return any(KINDS[op.kind].streamed for op in program)


def stream_schedule(cycle: Cycle, program: Program) -> Schedule:
    """The tasks of an epoch of mini-batches. Tasks of one operator have one key, so a trace has them side by side.

    Worker w trains, and makes batches in its turn, on resource w. It moves batches on resource W + w. Each of its
    loader threads is a resource behind these.
    """
    size = cycle.num_workers
    ops = {(op.attributes["stage"], op.attributes["way"]): op for op in program}
    streams = next(op.attributes["streams"] for op in program if "streams" in op.attributes)
    first_loader = list(accumulate((stream["num_loaders"] for stream in streams), initial=2 * size))
    schedule = Schedule(size)
    for worker, stream in enumerate(streams):
        for task in _of_worker(ops, worker, stream, size, first_loader[worker], len(schedule.tasks)):
            schedule.add(task)
    return schedule


def stage_categories(op: Operator) -> Category:
    """What a stage's time is booked under."""
    if op.kind == "move_batch":
        return "communicate"
    return "host" if op.attributes["stage"] == "cpu_batch" else "compute"


def _of_worker(
    ops: dict[tuple[str, str], Operator], worker: int, stream: dict, size: int, first_loader: int, first_task: int
) -> Iterator[Task]:
    num_loaders = stream["num_loaders"]
    policy = DualBufferPolicy(stream["num_batches"], Buffers(**stream["buffers"]).for_threads(num_loaders))
    seconds = dict.fromkeys(_STAGES, 0.0)
    seconds |= {stage: op.attributes["seconds"][worker] for (stage, _), op in ops.items()}
    for begun in unrolled(seconds, policy, num_loaders):
        op = ops[begun.stage, begun.route]
        at_loader = begun.stage == "cpu_batch"
        resource = first_loader + begun.thread if at_loader else worker + size * (begun.stage == "transfer")
        yield Task(
            op.key,
            worker,
            stage_categories(op),
            op.attributes["seconds"][worker],
            resource,
            tuple(first_task + number for number in begun.after),
            spread_s=op.attributes["spread_s"][worker],
        )
