"""Finding the best plan: over the workers that take part, and all that techniques can do for them."""

from gnnplan.planner.search.make import make_plan, named, plan_among
from gnnplan.planner.search.mini_batch import best_mini_batch, plan_mini_batches
from gnnplan.planner.search.simulate import simulate_plan

__all__ = ["best_mini_batch", "make_plan", "named", "plan_among", "plan_mini_batches", "simulate_plan"]
