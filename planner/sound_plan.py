"""Plans that are read from files: whether what stands in one follows from the rest of it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp

from gnnplan.planner.interval.work import work_of
from gnnplan.planner.lowering import lower_cycle
from gnnplan.planner.models.forward import FEATURES, Task, forward_cycle
from gnnplan.planner.plan import Plan
from gnnplan.planner.program.cycle import Cycle
from gnnplan.planner.program.difference import difference
from gnnplan.planner.program.document import CycleDocument
from gnnplan.planner.readers.bound import Bound, cycle_bound
from gnnplan.planner.search.mini_batch import cycle_of_choice
from gnnplan.planner.search.predict import loads_of, prediction_of, with_interval
from gnnplan.profiles.errors import UserError

EDITED = "it was edited, or made by another version; make the plan again"


def load_plan(path: str | Path, module: Any = None) -> Plan:
    """A plan whose program is of its job's model, and whose prediction is of its program.

    What only the graph can tell is checked where the plan runs (`gnnplan.planner.run.cycle_of`).

    Args:
        module: the `torch.nn.Module` of a plan whose model is one in memory, which no file has.

    Raises:
        UserError: with the first field that is not what the rest of the plan makes.
    """
    plan = Plan.load(path)
    for fault in _faults(plan):
        raise UserError(f"{path}: {fault}: {EDITED}")
    if module is not None:
        plan.job.model.holding(module)
    return plan


def _faults(plan: Plan) -> Iterator[str]:
    cycle = plan.cycle.cycle()
    if len(cycle.order) > 1 and plan.fidelity == "exact":
        yield f"cycle.order has {len(cycle.order)} programs, and choices that are exact repeat one"
    if fault := _of_batches(plan) if plan.mini_batch else difference(_told(cycle), _told_by_job(plan), "cycle"):
        yield fault
    if (features := cycle.values.get(FEATURES)) and sum(cycle.spaces[features.space].num_own) < plan.graph.num_nodes:
        yield f"graph.num_nodes is {plan.graph.num_nodes}, and workers own fewer rows"
    if fault := difference(plan.prediction, _predicted(plan, cycle), "prediction"):
        yield fault


def _of_batches(plan: Plan) -> str | None:
    """Where the program is not what the decisions make, which need no graph."""
    made = cycle_of_choice(plan.job, plan.choices[0].choice(), plan.placement)
    return difference(plan.cycle, CycleDocument.of(made), "cycle")


def _told(cycle: Cycle) -> dict[str, Any]:
    """What of a cycle its job and the graph's sizes tell too."""
    features = cycle.values.get(FEATURES)
    return {
        "parameters": dict(cycle.parameters),
        "seed": cycle.seed,
        "num_features": features.width if features else 0,
    }


def _told_by_job(plan: Plan) -> dict[str, Any]:
    of = plan.graph
    if plan.job.model.kind == "module":  # only its own code tells its parameters, and reading a plan runs no code
        parameters = dict(plan.cycle.parameters)
        return {"parameters": parameters, "seed": plan.job.training.seed, "num_features": of.num_features}
    # Parameters have the same shapes on any graph, so one of a single vertex says which.
    task = Task(sp.csr_matrix((1, 1), dtype=np.float32), of.num_features, of.num_classes, (np.ones(1, bool),) * 3)
    forward = forward_cycle(plan.job.model, task, seed=plan.job.training.seed)
    return {
        "parameters": dict(forward.parameters),
        "seed": forward.seed,
        "num_features": of.num_features,
    }


def _predicted(plan: Plan, cycle: Cycle) -> Any:
    """The plan's prediction made again; its bound, weather and objective stand, which are of more than its program.

    Of mini-batches what was measured stands too: memory, and the stages that bound them.
    """
    stands = plan.prediction
    bound = Bound(stands.bound_s, stands.bound_resource)
    if plan.mini_batch is not None:
        loads, own_bound = stands.workers, Bound(stands.schedule_bound_s, stands.schedule_bound_resource)
    else:
        loads, own_bound = loads_of(cycle, plan.placement), cycle_bound(cycle, plan.placement)
    schedules = lower_cycle(plan)
    made = prediction_of(schedules, loads, bound, own_bound)
    if plan.mini_batch is None:
        made = with_interval(made, schedules, plan.placement, work_of(plan.graph.fingerprint, plan.job.model))
    return made.model_copy(update={"weather": stands.weather, "objective": stands.objective})
