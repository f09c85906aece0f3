"""The steps as plain functions over the contracts: what the command line calls, open to scripts.

from gnnplan.planner import api
profile = api.profile_machine(quick=True)
plan = api.plan(job, cluster, Path("plan.json"))
predicted = api.simulate(plan, num_replicas=1000)
measured = api.run(Path("plan.json"), Path("run"))  # or api.prepare_run, for hosts of your own
explanation = api.explain(plan)
difference = api.diff(Path("plan.json"), Path("other.json"))
comparison = api.compare(predicted, measured)
better = api.calibrate([(plan, measured)]).profiles
record = api.minibatch(mini_batch_job, Path("run"))
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

from gnnplan.planner.calibrate import calibrate
from gnnplan.planner.cluster import CLUSTER_FILE, Cluster, HostSpec, expand_hosts, profile_file, with_profile
from gnnplan.planner.compare import compare
from gnnplan.planner.explain.diff import diff_plans as diff
from gnnplan.planner.explain.explain import explain_plan as explain
from gnnplan.planner.forecast.simulate import simulate_weather
from gnnplan.planner.graph import Graph
from gnnplan.planner.job import Job
from gnnplan.planner.loaders import load_graph
from gnnplan.planner.minibatch.run import run_mini_batches as minibatch
from gnnplan.planner.plan import Plan, save_plan
from gnnplan.planner.run import prepare_run
from gnnplan.planner.run import run_plan as run
from gnnplan.planner.search import make_plan, named
from gnnplan.planner.search import simulate_plan as simulate
from gnnplan.planner.search.decide import OnStep
from gnnplan.planner.weather.fit import fit_weather
from gnnplan.profiles.contract import check_writable
from gnnplan.profiles.errors import UserError
from gnnplan.profiles.launch import emulated_hosts
from gnnplan.profiles.machine import MachineProfile, MeasuredHost
from gnnplan.profiles.profiler import profile_hosts, profile_machine

__all__ = [
    "calibrate",
    "compare",
    "diff",
    "explain",
    "fit_weather",
    "load_graph",
    "minibatch",
    "plan",
    "prepare_run",
    "profile_cluster",
    "profile_machine",
    "run",
    "simulate",
    "simulate_weather",
]


def profile_cluster(
    cluster: Cluster, folder: Path, *, quick: bool = False, on_progress: Callable[[int, int], None] | None = None
) -> dict[str, MachineProfile]:
    """Profiles every host of an emulated cluster where it runs; call it inside `gnnplan emulate`.

    Writes `folder/HOST.json`, and `folder/cluster.json`: the same cluster, with those profiles. Each has all hosts with
    their links and cores, for its collectives are theirs under these.

    Raises:
        UserError: the hosts, or the limits of one, are not emulated here, or a host's name cannot be a file's.
        RunFailedError: a profiling worker failed.
    """
    hosts = expand_hosts(cluster)
    files = {name: folder / profile_file(name) for name, _ in hosts}
    _check_limits(hosts)
    check_writable(folder / CLUSTER_FILE)
    counts = {name: sum(device.count for device in host.devices) for name, host in hosts}
    members = tuple(
        MeasuredHost(name=name, num_workers=counts[name], link=cluster.link_of(host), cpu_cores=host.cpu_cores)
        for name, host in hosts
    )
    profiles = {
        name: profile.model_copy(update={"members": members, "host": name})
        for name, profile in profile_hosts(counts, quick=quick, on_progress=on_progress).items()
    }
    for name, profile in profiles.items():
        profile.save(files[name])
    measured = tuple(
        host.model_copy(
            update={"name": name, "count": 1, "devices": tuple(with_profile(device, name) for device in host.devices)}
        )
        for name, host in hosts
    )
    cluster.model_copy(update={"hosts": measured}).save(folder / CLUSTER_FILE)
    return profiles


def _check_limits(hosts: Sequence[tuple[str, HostSpec]]) -> None:
    """`UserError` where a host has limits and is not emulated here: one alone would be this machine without them."""
    known = emulated_hosts()
    for name, host in hosts:
        if name not in known and (host.cpu_cores is not None or host.link is not None):
            raise UserError(
                f"host {name!r} has limits (cpu_cores, link) that are only real inside an emulation of it: "
                f"gnnplan emulate CLUSTER -- gnnplan profile --cluster CLUSTER"
            )


def plan(
    job: Job, cluster: Cluster, path: Path, *, graph: Graph | None = None, on_step: OnStep = lambda _: None
) -> Plan:
    """Makes the best plan that fits and writes it to `path`, its partition beside it.

    Args:
        graph: where it is loaded already; else the job's source is loaded.
        on_step: told in words what the planner does.
    """
    made, partition = make_plan(job, cluster, graph or load_graph(job.graph), on_step)
    made = named(made, path)
    save_plan(made, partition, path)
    return made
