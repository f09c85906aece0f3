"""Uneven devices and a skewed graph, cut in equal parts: candidates whose halos are whole."""

import numpy as np

from benchmarks._pruning import first_candidate
from gnnplan.planner.cluster import Cluster, DeviceSpec, HostSpec, resolve
from gnnplan.planner.contracts.choice import Choice
from gnnplan.planner.contracts.received import received_rows
from gnnplan.planner.generate import generate_rmat
from gnnplan.planner.graph_spec import RmatGraph
from gnnplan.planner.job import Job
from gnnplan.planner.job_pins import PinnedDecisions
from gnnplan.planner.model_spec import ModelSpec
from gnnplan.planner.search.evaluate import compose_candidate
from gnnplan.planner.techniques.halo_exchange.technique import Sharing
from gnnplan.planner.techniques.joint_cache.technique import Kept
from gnnplan.planner.techniques.pruning.prune import Pruning
from gnnplan.planner.techniques.pruning.technique import choice_of
from gnnplan.profiles.machine import Link

SPEC = RmatGraph(source="rmat", num_nodes=3000, num_edges=40_000, num_features=64)
GRAPH = generate_rmat(SPEC)
DEVICES = ("rtx-3090", "gtx-1650", "t4")
MULTIPLY = {"op_order": "multiply_first"}
AGGREGATE = {"op_order": "aggregate_first", "precompute": False, "feature_cache": False}
ONCE = {"precompute": True}


def placement_of(devices=DEVICES, link=1e9, per_host=1, memory_bytes=None):
    """So many devices a host, behind links of equal or of given rates."""
    groups = [devices[first : first + per_host] for first in range(0, len(devices), per_host)]
    rates = link if isinstance(link, tuple) else (link,) * len(groups)
    hosts = tuple(
        HostSpec(
            name=f"h{i}",
            devices=tuple(DeviceSpec(catalog=device, memory_bytes=memory_bytes) for device in group),
            link=Link(bytes_per_s=rate, latency_s=1e-5),
        )
        for i, (group, rate) in enumerate(zip(groups, rates, strict=True))
    )
    return resolve(Cluster(hosts=hosts))


def candidate_of(kind="gcn", order=MULTIPLY, *, overlap=False, hidden=32, part=None, graph=GRAPH, **placement):
    """A two-layer model on METIS parts of equal shares, or on given ones."""
    pin = PinnedDecisions(partitioner="metis", balance="equal", overlap=overlap, dependencies="communicate", **order)
    job = Job(graph=SPEC, model=ModelSpec(kind=kind, hidden_channels=hidden), pin=pin)
    place = placement_of(**placement)
    beside = [] if part is None else [Choice("halo_exchange", Sharing(shares=_equal(place)), {"part": part})]
    return first_candidate(job, place, graph, beside)


def _equal(place):
    return (1 / len(place.workers),) * len(place.workers)


def keeping(candidate, interval, share=1.0):
    """The candidate with a share of its halo rows kept for so many epochs, drawn by chance."""
    rows, _ = received_rows(candidate, constant=False)
    rows = rows[:, np.random.default_rng(3).random(rows.shape[1]) < share]
    return compose_candidate(
        candidate.setting, [*candidate.choices, Choice("joint_cache", Kept(interval=interval), {"kept": rows})]
    )


def pruned(candidate, cost, kept):
    """The candidate composed without the pairs that are not kept."""
    found = Pruning(cost.pairs, kept, candidate.setting.matrix.nnz, np.ones(1), np.ones(1))
    return compose_candidate(candidate.setting, [*candidate.choices, choice_of(candidate, found)])


def own_s(candidate):
    """Seconds [W] of every worker's own tasks in an epoch, by the candidate's schedules."""
    busy = np.zeros(candidate.cycle.num_workers)
    for name, schedule in candidate.schedules.items():
        for task in schedule.tasks:
            if task.category != "communicate":
                busy[task.worker] += candidate.shares[name] * task.seconds
    return busy
