"""Runs of small plans, made up: traces in which every operator takes a hidden factor of its prediction."""

from functools import lru_cache
from itertools import groupby

import numpy as np

from gnnplan.planner.cluster import Cluster, DeviceSpec, HostSpec
from gnnplan.planner.generate import generate_sbm
from gnnplan.planner.graph_spec import SbmGraph
from gnnplan.planner.job import Job
from gnnplan.planner.lowering import lower_plan
from gnnplan.planner.model_spec import ModelSpec
from gnnplan.planner.search import make_plan
from gnnplan.planner.trace import Span, Trace
from gnnplan.profiles.catalog import catalog_profile
from gnnplan.profiles.machine import CollectiveTable, OperatorTable, Point

COLLECTIVES = {"all_reduce": 2e-5, "all_to_all": 3e-5, "all_to_all_port": 1e-5}
OVERHEAD_S = 5e-6


def collective_tables(*, charged=False):
    """Collectives between two workers, latency and bandwidth; `charged` ones work on a processor all the time."""
    made = []
    for name, latency_s in COLLECTIVES.items():
        points = tuple(Point(shape=(b,), median_s=latency_s + b / 1e9, spread_s=1e-6) for b in (1e2, 1e5, 1e8))
        table = OperatorTable(axes=("num_bytes",), points=points)
        processor = table if charged else None
        made.append(CollectiveTable(collective=name, backend="gloo", num_workers=2, table=table, processor=processor))
    return tuple(made)


def cpu_profile(**changes):
    """A device of the catalog as if it were a CPU shared by two workers."""
    fields = {"device_kind": "cpu", "host_overhead_s": OVERHEAD_S, "collectives": collective_tables(), "name": "here"}
    return catalog_profile("t4").model_copy(update=fields | changes)


@lru_cache(maxsize=64)
def plan_of(folder, kind, hidden=32, num_features=12, hosts=(("here", 2),), interval=1, overlap=None):
    """A plan on the profiles `folder/NAME.json`, for hosts of (name, devices)."""
    spec = SbmGraph(source="sbm", num_nodes=1500, average_degree=10, num_classes=5, num_features=num_features)
    devices = {name: (DeviceSpec(profile=folder / f"{name}.json", count=count),) for name, count in hosts}
    cluster = Cluster(hosts=tuple(HostSpec(name=name, devices=device) for name, device in devices.items()))
    model = ModelSpec(kind=kind, hidden_channels=hidden, dropout=0.5 if kind == "gin" else 0.0)
    pin = {"num_workers": sum(count for _, count in hosts), "refresh_interval": interval, "balance": "speed"}
    pin |= {"overlap": overlap, "dependencies": "communicate"}  # which all operators and exchanges are part of
    fidelity = "stale" if interval > 1 else "exact"
    return make_plan(Job(graph=spec, model=model, fidelity=fidelity, pin=pin), cluster, generate_sbm(spec))[0]


def profiles_in(folder):
    """The folder with two profiles, `here` and `there`."""
    cpu_profile().save(folder / "here.json")
    cpu_profile(name="there", host_overhead_s=2 * OVERHEAD_S).save(folder / "there.json")
    return folder


def takes(plan, task, factors):
    """Seconds of a task when operators take `factors` times their prediction."""
    if not task.parts:
        return task.seconds if task.category != "compute" else 0.0
    profile = plan.placement.profile_of(task.worker).name
    return sum(s * factors.get((profile, o), factors.get(o, 1.0)) for o, s in task.parts)


def tasks_of(plan, epochs):
    """What is run in every epoch."""
    refreshes = [epoch % plan.refresh_interval == 0 for epoch in range(epochs)]
    tasks = {refresh: lower_plan(plan, refresh=refresh).tasks for refresh in set(refreshes)}
    return [tasks[refresh] for refresh in refreshes]


def measured(plan, factors=None, *, noise=0.0, wait_s=0.0, overhead_s=OVERHEAD_S, epochs=7, seed=0, pace=None):
    """A trace in which every operator takes `factor` times the prediction.

    Args:
        factors: by operator, or by (profile name, operator).
        noise: standard deviation of a task's logarithm in one epoch.
        wait_s: workers begin an epoch up to so far apart, and wait for one another in its first collective.
        overhead_s: between the tasks.
        pace: by (key, worker), what a quota makes of a task and its overhead.
    """
    factors, rng, pace = factors or {}, np.random.default_rng(seed), pace or {}
    spans, longest_s = [], 0.0
    for epoch, run in enumerate(tasks_of(plan, epochs)):
        clock_s = wait_s * rng.random(plan.num_workers)
        for _, group in groupby(run, key=lambda task: task.key):
            tasks = list(group)
            noisy = np.exp(noise * rng.standard_normal(len(tasks)))
            paces = [pace.get((task.key, task.worker), 1.0) for task in tasks]
            takes_s = [takes(plan, task, factors) * slower * p for task, slower, p in zip(tasks, noisy, paces)]
            gaps_s = [overhead_s * p if t.category == "compute" else 0.0 for t, p in zip(tasks, paces)]
            starts_s = [clock_s[t.worker] + gap_s for t, gap_s in zip(tasks, gaps_s)]
            ends_s = [start + seconds for start, seconds in zip(starts_s, takes_s)]
            if tasks[0].category == "communicate":  # nobody is done before the last to come
                ends_s = [max(starts_s) + takes_s[0]] * len(tasks)
            for task, start_s, end_s in zip(tasks, starts_s, ends_s):
                clock_s[task.worker] = end_s
                spans.append(
                    Span(
                        task=task.key,
                        worker=task.worker,
                        epoch=epoch,
                        category=task.category,
                        start_s=start_s,
                        end_s=end_s,
                    )
                )
        longest_s = max(longest_s, clock_s.max())
    return Trace(
        origin="measured",
        plan_fingerprint=plan.fingerprint(),
        num_workers=plan.num_workers,
        spans=tuple(spans),
        epoch_s=(longest_s,),
        peak_bytes=(1,) * plan.num_workers,
    )


def corrections(profile):
    """What changed, by operator."""
    return {correction.operator: correction for correction in profile.corrections}


def factors_of(profile):
    """The factors by operator."""
    return {name: correction.factor for name, correction in corrections(profile).items()}
