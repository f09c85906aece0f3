"""Uneven devices and a skewed graph, cut in equal parts."""

import numpy as np

from gnnplan.planner.adjacency import aggregation_matrix
from gnnplan.planner.cluster import Cluster, DeviceSpec, HostSpec, resolve
from gnnplan.planner.generate import generate_rmat
from gnnplan.planner.halo import build_halo
from gnnplan.planner.job import Job, ModelSpec, RmatGraph
from gnnplan.planner.partition import partition
from gnnplan.planner.steps import LayerDecision
from gnnplan.planner.strategies.base import Problem
from gnnplan.planner.strategies.trial import Trial
from gnnplan.profiles.machine import Link

SPEC = RmatGraph(source="rmat", num_nodes=3000, num_edges=40_000, num_features=64)
GRAPH = generate_rmat(SPEC)
MULTIPLY = LayerDecision(op_order="multiply_first")
AGGREGATE = LayerDecision(op_order="aggregate_first")
ONCE = LayerDecision(op_order="aggregate_first", precompute=True)
DEVICES = ("rtx-3090", "gtx-1650", "t4")


def problem_of(kind="gcn", devices=DEVICES, link=1e9, hidden=32, per_host=1):
    """A two-layer model, so many devices a host, behind links of equal or of given rates."""
    groups = [devices[first : first + per_host] for first in range(0, len(devices), per_host)]
    rates = link if isinstance(link, tuple) else (link,) * len(groups)
    hosts = tuple(
        HostSpec(
            name=f"h{i}",
            devices=tuple(DeviceSpec(catalog=device) for device in group),
            link=Link(bytes_per_s=rate, latency_s=1e-5),
        )
        for i, (group, rate) in enumerate(zip(groups, rates, strict=True))
    )
    job = Job(graph=SPEC, model=ModelSpec(kind=kind, hidden_channels=hidden))
    return Problem(GRAPH, job, resolve(Cluster(hosts=hosts)))


def trial_of(problem, part=None, halo=None):
    """The problem on METIS parts of equal shares."""
    size = len(problem.placement.workers)
    if part is None:
        part = partition(GRAPH.num_nodes, GRAPH.edge_index, size, "metis")
    if halo is None:
        matrix = aggregation_matrix(GRAPH.num_nodes, GRAPH.edge_index, problem.job.model.kind)
        halo = build_halo(matrix, np.asarray(part), size)
    return Trial(problem, part, halo, False)
