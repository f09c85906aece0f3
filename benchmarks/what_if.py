"""How many points of a sweep are priced in a minute of one core's time: `examples/sweep.toml` on papers100M.

Processor time is counted, so that what else the machine does does not matter much. Every point is the fastest of all
layouts and of what techniques propose; the first points of a model also make its programs.
"""

from __future__ import annotations

from benchmarks._common import ROOT
from gnnplan.planner.job import Job
from gnnplan.planner.sweep.contract import Sweep
from gnnplan.planner.sweep.run import run_sweep


def main(quick: bool) -> dict:
    """Points a minute; the quick form asks about one kind of machine."""
    job, sweep = (Job.load(ROOT / "examples" / "papers100m.toml"), Sweep.load(ROOT / "examples" / "sweep.toml"))
    if quick:
        sweep = sweep.model_copy(update={"machines": sweep.machines[1:]})
    result = run_sweep(job, sweep)
    print(f"{len(result.points)} points, {result.points_per_minute:,.0f} a minute")
    return {
        "points": len(result.points),
        "points_per_minute": result.points_per_minute,
        "most_workers": max(point.num_workers for point in result.points),
    }
