"""Finding the best plan: over the workers that take part, and all that techniques can do for them."""

from gnnplan.planner.search.make import make_plan, named
from gnnplan.planner.search.simulate import simulate_plan

__all__ = ["make_plan", "named", "simulate_plan"]
