"""The verbs that ask what if: `statistics` and `whatif`."""

from __future__ import annotations

import argparse
from pathlib import Path

from rich.console import Console

from gnnplan.planner import api
from gnnplan.planner.graph_spec import StatisticsGraph
from gnnplan.planner.job import Job
from gnnplan.planner.report.output import print_result, print_wrote
from gnnplan.planner.report.progress import bar, steps
from gnnplan.planner.report.statistics import statistics_table
from gnnplan.planner.report.sweep import sweep_tables
from gnnplan.planner.report.sweep_picture import write_sweep_picture
from gnnplan.planner.sweep.contract import Sweep
from gnnplan.profiles.contract import check_writable
from gnnplan.profiles.errors import NoPlanFitsError, UserError

_notes = Console(stderr=True)


def statistics(arguments: argparse.Namespace) -> None:
    """`gnnplan statistics`."""
    job = Job.load(arguments.job)
    if isinstance(job.graph, StatisticsGraph):
        raise UserError(f"{arguments.job}: its graph is statistics already: {job.graph.path}")
    check_writable(arguments.output)
    with steps(_notes, "loading the graph") as on_step:
        made = api.statistics(job, parts=arguments.parts, partitioner=arguments.partitioner, on_step=on_step)
    made.save(arguments.output)
    print_result(
        arguments, {"statistics": str(arguments.output), **made.model_dump(mode="json")}, statistics_table(made)
    )
    print_wrote(arguments, arguments.output)


def whatif(arguments: argparse.Namespace) -> None:
    """`gnnplan whatif`."""
    job, sweep = Job.load(arguments.job), Sweep.load(arguments.sweep)
    folder = arguments.output or Path("out") / sweep.name
    paths = [folder / "sweep.json", folder / "sweep.png"]
    for path in paths:
        check_writable(path)
    with bar(_notes, "pricing", "points") as on_point:
        result = api.whatif(job, sweep, num_checks=arguments.check, on_point=on_point)
    result.save(paths[0])
    write_sweep_picture(paths[1], result)
    print_result(arguments, result.model_dump(mode="json"), sweep_tables(result))
    print_wrote(arguments, *paths)
    if not any(point.fits for point in result.points):
        least = result.least[0]
        raise NoPlanFitsError(
            f"no machine of the sweep fits: {least.model} on {least.nearest} lacks "
            f"{least.missing_bytes:,} bytes a device"
        )
