"""From a job and a cluster to the best plan that fits."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path

from gnnplan.planner.cluster import Cluster, Placement, resolve
from gnnplan.planner.contracts.candidate import Candidate, by_merit
from gnnplan.planner.forecast.under_weather import under_weather
from gnnplan.planner.graph import Graph
from gnnplan.planner.interval.work import work_of
from gnnplan.planner.job import Job
from gnnplan.planner.models.module_source import with_source
from gnnplan.planner.partial.decision import waiting_among
from gnnplan.planner.plan import Candidate as Considered
from gnnplan.planner.plan import Chosen, GraphFacts, Plan, Searched
from gnnplan.planner.plan_files import Partition
from gnnplan.planner.program.document import CycleDocument
from gnnplan.planner.search.decide import Found, OnStep
from gnnplan.planner.search.forms import best_form
from gnnplan.planner.search.objective import Judge
from gnnplan.planner.search.predict import loads_of, prediction_of, with_interval
from gnnplan.planner.search.rejected import rejected, rejected_model
from gnnplan.planner.search.summary import summary
from gnnplan.profiles.errors import UserError

_NUM_CONSIDERED = 8


def make_plan(job: Job, cluster: Cluster, graph: Graph, on_step: OnStep = lambda _: None) -> tuple[Plan, Partition]:
    """The fastest plan by simulation that fits every worker's memory, with its partition.

    Raises:
        UserError: the job cannot run on the cluster at all, or its objective asks for prices and there are none.
        NoPlanFitsError: every decision needs more memory than some worker has.
    """
    if job.mini_batch is not None:
        raise UserError(f"{job.name}: mini-batches are planned where they run, from measured stages: gnnplan plan JOB")
    placement = resolve(cluster)
    Judge(job).check(placement)
    return plan_among(job, placement, graph, on_step)


def plan_among(
    job: Job, placement: Placement, graph: Graph, on_step: OnStep = lambda _: None
) -> tuple[Plan, Partition]:
    """The same, on any of the workers of a placement."""
    chosen, others = best_form(with_source(job), placement, graph, on_step)
    on_step("simulating the chosen plan")
    return plan_of(chosen.job, graph, chosen.found, [each.found.best for each in others])


def named(plan: Plan, path: Path) -> Plan:
    """The plan with its partition file named after `path`."""
    return plan.model_copy(update={"partition_file": f"{path.stem}.partition.npz"})


def plan_of(job: Job, graph: Graph, found: Found, of_other_models: Sequence[Candidate] = ()) -> tuple[Plan, Partition]:
    """What was found as a plan, with its arrays.

    Args:
        of_other_models: the best of other forms of the job's model.
    """
    best = found.best
    placement, partition = best.setting.placement, Partition.of(best.choices)
    loads = loads_of(best.cycle, placement, best.memory)
    in_order = [best.schedules[name] for name in best.cycle.order]
    prediction = prediction_of(in_order, loads, found.bound, best.bound)
    prediction = with_interval(prediction, in_order, placement, work_of(graph.fingerprint, job.model))
    waiting = waiting_among(choice.decision for choice in best.choices)
    weather = under_weather(job, in_order, prediction.epoch_s, waiting)
    plan = Plan(
        schema_version=Plan.VERSION,
        job=job,
        placement=placement,
        graph=GraphFacts.of(graph),
        choices=tuple(map(Chosen.of, best.choices)),
        cycle=CycleDocument.of(best.cycle),
        prediction=prediction.model_copy(update={"weather": weather, "objective": found.objective}),
        partition_file="",
        partition_sha256=partition.digest(),
        considered=tuple(_considered(found.looked_at)),
        rejected=(*rejected(best, [*found.looked_at, *found.alone]), *map(rejected_model, of_other_models)),
        searched=Searched(
            num_candidates=max(len(found.looked_at), 1),
            num_sets=found.num_sets,
            num_passed_over=found.num_passed_over,
            num_left=found.num_left,
            ended_by=found.ended_by,
            bound_s=found.searched.seconds,
            bound_resource=found.searched.set_by,
        ),
    )
    return plan, partition


def _considered(looked_at: Iterable[Candidate]) -> Iterable[Considered]:
    """The fastest of those that differ in words."""
    shown: dict[str, Considered] = {}
    for candidate in by_merit(looked_at):
        words = summary(candidate)
        if words not in shown:
            shown[words] = Considered(summary=words, epoch_s=candidate.epoch_s, fits=candidate.fits)
        if len(shown) == _NUM_CONSIDERED:
            break
    return list(shown.values())
