"""The six steps as plain functions over the contracts: what the command line calls, open to scripts.

from planner import api
profile = api.profile_machine(quick=True)
plan = api.plan(job, cluster, Path("plan.json"))
predicted = api.simulate(plan)
measured = api.run(Path("plan.json"), Path("run"))
comparison = api.compare(predicted, measured)
"""

from __future__ import annotations

from pathlib import Path

from planner.cluster import Cluster
from planner.compare import compare
from planner.graph import Graph
from planner.job import Job
from planner.loaders import load_graph
from planner.plan import Plan, save_plan
from planner.run import run_plan as run
from planner.search import make_plan, named
from planner.search import simulate_plan as simulate
from planner.strategies.base import OnStep
from profiles.profiler import profile_machine

__all__ = ["compare", "load_graph", "plan", "profile_machine", "run", "simulate"]


def plan(
    job: Job, cluster: Cluster, path: Path, *, graph: Graph | None = None, on_step: OnStep = lambda _: None
) -> Plan:
    """Makes the best plan that fits and writes it to `path`, its partition beside it.

    Args:
        graph: where it is loaded already; else the job's source is loaded.
        on_step: told in words what the planner does.
    """
    made, part = make_plan(job, cluster, graph or load_graph(job.graph), on_step)
    made = named(made, path)
    save_plan(made, part, path)
    return made
