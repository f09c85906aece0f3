"""Which form of a job's model is trained: the model as it is, or decoupled where the job's fidelity allows that."""

from __future__ import annotations

from dataclasses import dataclass

from gnnplan.planner.cluster import Placement
from gnnplan.planner.graph import Graph
from gnnplan.planner.job import Job
from gnnplan.planner.search.decide import Found, OnStep, decide
from gnnplan.planner.search.objective import Judge
from gnnplan.planner.search.pins import check_least_group, check_partial_reduce, check_techniques
from gnnplan.profiles.errors import NoPlanFitsError, PinnedOutError


@dataclass(frozen=True)
class Form:
    """A job with one form of its model, and what the search for it came to."""

    job: Job
    found: Found


def best_form(
    job: Job, placement: Placement, graph: Graph, on_step: OnStep = lambda _: None
) -> tuple[Form, list[Form]]:
    """The form whose best plan is best by the job's objective, and those that lost.

    Raises:
        UserError: the job, or a form of it, cannot run on the cluster at all, or no form has a plan with all pins.
        NoPlanFitsError: no form has a plan that fits; it is the first form's.
    """
    searched: list[Form] = []
    refused: list[NoPlanFitsError | PinnedOutError] = []
    for each in job.forms:
        if len(job.forms) > 1:
            on_step(f"the model as {each.model.words}")
        check_techniques(each)
        check_partial_reduce(each)
        check_least_group(each, each.pin.num_workers or len(placement.workers))
        try:
            searched.append(Form(each, decide(each, placement, graph, on_step, 1 / len(job.forms))))
        except (NoPlanFitsError, PinnedOutError) as error:
            refused.append(error)
    if not searched:
        raise refused[0]
    best, *others = sorted(searched, key=lambda form: Judge(job).scored(form.found.best).order)
    return best, others
