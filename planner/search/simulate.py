"""Plays what stands in a plan on the virtual clock."""

from __future__ import annotations

from gnnplan.planner.lowering import lower_cycle
from gnnplan.planner.plan import Plan
from gnnplan.planner.search.predict import fluctuating_of, trace_of
from gnnplan.planner.trace import Trace


def simulate_plan(plan: Plan, num_replicas: int = 0) -> Trace:
    """Plays the plan's schedule on the virtual clock; needs neither graph nor devices.

    Args:
        num_replicas: epochs to be played beside it whose tasks fluctuate as they were measured to; those that the
            profile has no spread of (published or scaled figures) are constant.
    """
    schedules = lower_cycle(plan)
    trace = trace_of(schedules, plan.fingerprint(), plan.prediction.workers)
    if not num_replicas:
        return trace
    return trace.model_copy(update={"fluctuating": fluctuating_of(schedules, num_replicas)})
