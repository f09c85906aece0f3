"""The workers of a mini-batch plan as a table: how each comes by its batches."""

from __future__ import annotations

from rich.table import Table

from gnnplan.planner.minibatch.decision import MiniBatchDecision
from gnnplan.planner.plan import Plan
from gnnplan.planner.report.units import size


def batches_table(plan: Plan, decision: MiniBatchDecision) -> Table:
    """Of every worker its batches, how its threads are shared out, and how many batches may wait."""
    table = Table(caption="ahead: made by loading threads; in turn: by the device that trains", caption_justify="left")
    for column in ("worker", "host", "batches", "in turn", "loading", "training", "may wait", "peak memory", "of"):
        table.add_column(column, justify="left" if column == "host" else "right")
    rows = zip(plan.placement.workers, decision.workers, plan.prediction.workers, strict=True)
    for rank, (place, part, load) in enumerate(rows):
        table.add_row(
            str(rank),
            place.host,
            f"{part.num_batches:,}",
            "who is free" if part.num_in_turn is None else f"{part.num_in_turn:,}",
            f"{part.num_loaders} threads",
            f"{part.num_training_threads} threads",
            f"{part.buffers.cpu_slots} + {part.buffers.gpu_slots}",
            size(load.peak_bytes),
            size(load.capacity_bytes),
        )
    return table
