"""What memory of a plan's workers is spare, and what one more gigabyte would be worth."""

from __future__ import annotations

from collections.abc import Iterator

from gnnplan.planner.cluster import Placement
from gnnplan.planner.explain.explanation import Memory
from gnnplan.planner.graph import Graph
from gnnplan.planner.plan import Plan
from gnnplan.planner.search.decide import OnStep, decide

MORE_BYTES = 10**9
_MOST_SEARCHES = 4


def spare_memory(plan: Plan) -> tuple[Memory, ...]:
    """Of every worker, nothing searched."""
    pairs = zip(plan.placement.workers, plan.prediction.workers, strict=True)
    return tuple(
        Memory(worker=rank, host=place.host, spare_bytes=load.capacity_bytes - load.peak_bytes)
        for rank, (place, load) in enumerate(pairs)
    )


def priced_memory(plan: Plan, graph: Graph, on_step: OnStep) -> tuple[Memory, ...]:
    """As `spare_memory`; for workers whose memory may have limited a choice, the search is run again with more.

    It is a search over the plan's workers alone. They are those that lack memory for a faster candidate, and those
    with less than a gigabyte to spare; of more than four those with the least.
    """
    memory = list(spare_memory(plan))
    limited = sorted(_limited(plan, memory), key=lambda rank: memory[rank].spare_bytes)
    for rank in limited[:_MOST_SEARCHES]:
        on_step(f"searching again with 1 GB more on worker {rank}")
        found = decide(plan.job, _with_more(plan.placement, rank), graph)
        moved_s = found.best.epoch_s - plan.prediction.long_run_epoch_s
        memory[rank] = memory[rank].model_copy(update={"more_bytes": MORE_BYTES, "moved_s": moved_s})
    return tuple(memory)


def _limited(plan: Plan, memory: list[Memory]) -> Iterator[int]:
    lacking = {each.missing_on for each in plan.rejected if each.kind == "memory"}
    return (each.worker for each in memory if each.host in lacking or each.spare_bytes < MORE_BYTES)


def _with_more(placement: Placement, rank: int) -> Placement:
    workers = list(placement.workers)
    more = {"memory_bytes": workers[rank].memory_bytes + MORE_BYTES}
    workers[rank] = workers[rank].model_copy(update=more)
    return placement.model_copy(update={"workers": tuple(workers)})
