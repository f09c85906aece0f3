"""Why a plan takes what it takes."""

from __future__ import annotations

from gnnplan.planner.explain.binding import worker_bindings
from gnnplan.planner.explain.epochs import played_programs
from gnnplan.planner.explain.explanation import Explanation
from gnnplan.planner.explain.memory import priced_memory, spare_memory
from gnnplan.planner.explain.path import path_parts
from gnnplan.planner.explain.prices import prices_of
from gnnplan.planner.graph import Graph
from gnnplan.planner.plan import Plan
from gnnplan.planner.search.decide import OnStep
from gnnplan.profiles.errors import UserError


def explain_plan(plan: Plan, *, graph: Graph | None = None, on_step: OnStep = lambda _: None) -> Explanation:
    """The critical path of an epoch, what binds each worker, shadow prices, and what lost against the plan.

    It simulates the plan, and the plan where one resource is better, from what stands in the plan alone.

    Args:
        graph: the plan's. With it the search is run again where memory may have limited a choice (None: never).
        on_step: told in words what is done.

    Raises `UserError` where the graph is not the one that the plan was made for, or there is no search to run again.
    """
    if graph is not None:
        if plan.job.mini_batch:
            raise UserError(f"{plan.job.name}: mini-batches are not searched, but measured; leave --search out")
        plan.check_graph(graph)
    on_step("simulating the plan")
    programs = played_programs(plan)
    path, workers = path_parts(programs), worker_bindings(programs, plan.placement)
    on_step("simulating it with better resources")
    # Stages of mini-batches were measured as a whole: which resource each would gain from is not known.
    prices, combined = ((), ()) if plan.job.mini_batch else prices_of(plan, workers)
    prediction = plan.prediction
    return Explanation(
        epoch_s=sum(part.seconds for part in path),
        long_run_epoch_s=prediction.long_run_epoch_s,
        compute_s=prediction.compute_s,
        communicate_s=prediction.communicate_s,
        host_s=prediction.host_s,
        path=path,
        workers=workers,
        prices=prices,
        combined=combined,
        memory=spare_memory(plan) if graph is None else priced_memory(plan, graph, on_step),
        rejected=plan.rejected,
    )
