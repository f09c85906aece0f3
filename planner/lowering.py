"""The schedules of a plan's epochs, from what stands in the plan alone."""

from __future__ import annotations

from gnnplan.planner.plan import Plan
from gnnplan.planner.readers.schedule import schedule_of
from gnnplan.planner.schedule import Schedule


def lower_plan(plan: Plan, *, refresh: bool = True) -> Schedule:
    """The schedule of a plan's epoch.

    With `refresh` false it is an epoch that reuses rows of earlier ones, where the plan has such epochs.
    """
    cycle = plan.cycle.cycle()
    names = list(dict.fromkeys(cycle.order))
    return schedule_of(cycle, names[0 if refresh else -1], plan.placement)


def lower_cycle(plan: Plan) -> list[Schedule]:
    """The schedules of the epochs that a plan plays over and over, in their order; equal ones are one object."""
    cycle = plan.cycle.cycle()
    made = {name: schedule_of(cycle, name, plan.placement) for name in dict.fromkeys(cycle.order)}
    return [made[name] for name in cycle.order]
