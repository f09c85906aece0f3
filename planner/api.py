"""The steps as plain functions over the contracts: what the command line calls, open to scripts.

from planner import api
profile = api.profile_machine(quick=True)
plan = api.plan(job, cluster, Path("plan.json"))
predicted = api.simulate(plan, num_replicas=1000)
measured = api.run(Path("plan.json"), Path("run"))
comparison = api.compare(predicted, measured)
better = api.calibrate([(plan, measured)]).profiles
record = api.minibatch(mini_batch_job, Path("run"))
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from planner.calibrate import calibrate
from planner.cluster import Cluster, DeviceSpec, expand_hosts
from planner.compare import compare
from planner.graph import Graph
from planner.job import Job
from planner.loaders import load_graph
from planner.minibatch.run import run_mini_batches as minibatch
from planner.plan import Plan, save_plan
from planner.run import run_plan as run
from planner.search import make_plan, named
from planner.search import simulate_plan as simulate
from planner.strategies.base import OnStep
from planner.weather.fit import fit_weather
from planner.weather.simulate import simulate_weather
from profiles.contract import check_writable
from profiles.machine import MachineProfile
from profiles.profiler import profile_hosts, profile_machine

__all__ = [
    "calibrate",
    "compare",
    "fit_weather",
    "load_graph",
    "minibatch",
    "plan",
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

    Writes `folder/HOST.json`, and `folder/cluster.json`: the cluster with those profiles.
    """
    check_writable(folder / "cluster.json")
    hosts = expand_hosts(cluster)
    counts = {name: sum(device.count for device in host.devices) for name, host in hosts}
    profiles = profile_hosts(counts, quick=quick, on_progress=on_progress)
    for name, profile in profiles.items():
        profile.save(folder / f"{name}.json")
    measured = tuple(
        host.model_copy(
            update={"name": name, "count": 1, "devices": tuple(_measured(name, device) for device in host.devices)}
        )
        for name, host in hosts
    )
    cluster.model_copy(update={"hosts": measured}).save(folder / "cluster.json")
    return profiles


def _measured(name: str, device: DeviceSpec) -> DeviceSpec:
    """A host's devices by the profile measured there; what the user says of their memory stands."""
    return device.model_copy(update={"catalog": None, "profile": Path(f"{name}.json")})


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
