"""From a job and a sweep to what it found, from the graph's statistics or from the graph."""

from __future__ import annotations

import time
from collections.abc import Callable

from gnnplan.planner.contracts.technique import LAYOUT
from gnnplan.planner.graph import Graph
from gnnplan.planner.graph_spec import StatisticsGraph
from gnnplan.planner.job import Job
from gnnplan.planner.loaders import load_graph
from gnnplan.planner.search.pins import check_techniques
from gnnplan.planner.statistics.contract import Statistics
from gnnplan.planner.statistics.measure import measure
from gnnplan.planner.sweep.check import checked
from gnnplan.planner.sweep.contract import Sweep
from gnnplan.planner.sweep.points import OnPoint, sweep_points
from gnnplan.planner.sweep.result import SweepResult, least_of
from gnnplan.planner.techniques.registry import technique
from gnnplan.profiles.errors import UserError

OnStep = Callable[[str], None]


def statistics_of(
    job: Job, graph: Graph | None = None, on_step: OnStep = lambda _: None
) -> tuple[Statistics, Graph | None]:
    """A job's statistics as they stand in a file, or measured on its graph, which comes with them.

    Args:
        graph: where it is in memory already.
    """
    if graph is None and isinstance(job.graph, StatisticsGraph):
        return Statistics.load(job.graph.path), None
    on_step("loading the graph")
    graph = graph or load_graph(job.graph)
    return measure(graph, on_step=on_step), graph


def run_sweep(
    job: Job,
    sweep: Sweep,
    *,
    graph: Graph | None = None,
    num_checks: int = 0,
    on_step: OnStep = lambda _: None,
    on_point: OnPoint = lambda done, total: None,
) -> SweepResult:
    """Prices every point of a sweep.

    Args:
        graph: where it is in memory already.
        num_checks: of the points, on how many the real search looks for a plan.
        on_step: told in words what is done; on_point: how many points are done, of how many.

    Raises:
        UserError: too many points, a pinned technique that chooses rows, checks without a graph, or mini-batches on
            hosts whose cores are not known.
    """
    if num_checks and job.mini_batch is not None:
        raise UserError(f"{job.name}: mini-batches are planned where they run, by gnnplan plan; leave --check out")
    if num_checks and graph is None and isinstance(job.graph, StatisticsGraph):
        raise UserError(f"{job.name}: --check searches on a graph, and the job has only its statistics; leave it out")
    check_techniques(job)
    for name, is_on in job.pin.asked.items():
        if is_on and technique(name).arrays and LAYOUT not in technique(name).claims:
            raise UserError(f"{job.name}: pin.techniques.{name}: statistics have no rows to choose of; leave it out")
    statistics, graph = statistics_of(job, graph, on_step)
    on_step("pricing")
    began_s = time.process_time()
    swept = sweep_points(job, sweep, statistics, on_point)
    took_s = time.process_time() - began_s
    if graph is not None and num_checks:
        swept = checked(swept, num_checks, graph, on_step)
    points = tuple(each.point for each in swept)
    return SweepResult(
        name=sweep.name,
        graph=statistics.name,
        epochs=job.training.epochs,
        halos="no halos: batches are sampled" if job.mini_batch else halo_words(statistics),
        points=points,
        least=least_of(points),
        points_per_minute=60 * len(points) / took_s,
    )


def halo_words(statistics: Statistics) -> str:
    """Where the sizes of halos come from."""
    if not statistics.cuts:
        return "halos of a random partition, the most there can be in the mean: statistics name no cut"
    parts = ", ".join(str(cut.num_parts) for cut in statistics.cuts)
    by = f" by {statistics.partitioner}" if statistics.partitioner else ""
    return f"halos after cuts into {parts} parts{by}, by a power law between and beyond these"
