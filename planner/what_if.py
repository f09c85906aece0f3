"""What if: machines one does not have, and the same job on them in several variants, predicted side by side."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from pydantic import PositiveFloat

from gnnplan.planner.adjacency import aggregation_matrix
from gnnplan.planner.cluster import Cluster, DeviceSpec, HostSpec
from gnnplan.planner.graph import Graph
from gnnplan.planner.halo import build_halo
from gnnplan.planner.job import Job
from gnnplan.planner.plan import Partition, Plan
from gnnplan.planner.rapa.prune import Pruning, prune_halos
from gnnplan.planner.search import make_plan
from gnnplan.planner.steps import LayerDecision
from gnnplan.planner.strategies.base import Problem
from gnnplan.planner.strategies.trial import Trial
from gnnplan.profiles.catalog import catalog_profile
from gnnplan.profiles.contract import Contract
from gnnplan.profiles.curves import Curve
from gnnplan.profiles.errors import NoPlanFitsError
from gnnplan.profiles.machine import Link

_STAGED_BYTES = 2.0**28


@dataclass(frozen=True)
class Variant:
    """A job's plan and partition, or why it has none."""

    plan: Plan | None
    partition: Partition | None
    reason: str = ""

    @property
    def epoch_s(self) -> float | None:
        """Predicted seconds of an epoch; None where no plan fits."""
        return self.plan.prediction.epoch_s if self.plan else None


def one_host(name: str, devices: Sequence[str]) -> Cluster:
    """A host with these catalog devices, whose rows pass through its memory (no peer-to-peer).

    Args:
        devices: catalog names, one a device; equal ones stand together, in the order of their first.
    """
    counts = Counter(devices)
    specs = tuple(DeviceSpec(catalog=device, count=count) for device, count in counts.items())
    return Cluster(name=name, hosts=(HostSpec(name=name, devices=specs),), device_link=staged_link(list(counts)))


def staged_link(devices: Sequence[str]) -> Link:
    """From a device to its host's pageable memory and on to another device, at the pace of the slowest of them.

    `1 / (seconds a byte to the host + seconds a byte to the device)`, both of the catalog's transfer tables. It
    leaves out what copies within the host's memory cost.
    """
    seconds = max(_seconds(device, "d2h_pageable") + _seconds(device, "h2d_pageable") for device in devices)
    latency_s = max(2 * catalog_profile(device).host_overhead_s for device in devices)
    return Link(bytes_per_s=PositiveFloat(_STAGED_BYTES / (seconds - latency_s)), latency_s=latency_s)


def _seconds(device: str, transfer: str) -> float:
    return Curve.from_table(catalog_profile(device).operators[transfer]).seconds((_STAGED_BYTES,)).seconds


def plan_variants(jobs: Mapping[str, Job], cluster: Cluster, graph: Graph) -> dict[str, Variant]:
    """Every job planned on the cluster; one that fits nowhere says what is missing instead."""
    variants = {}
    for name, job in jobs.items():
        try:
            variants[name] = Variant(*make_plan(job, cluster, graph))
        except NoPlanFitsError as error:
            variants[name] = Variant(None, None, str(error))
    return variants


def prune_partition(plan: Plan, partition: Partition, graph: Graph) -> Pruning:
    """What RAPA would take from a plan's partition, its halos whole, under the plan's order of operators."""
    matrix = aggregation_matrix(graph.num_nodes, graph.edge_index, plan.job.model.kind)
    halo = build_halo(matrix, partition.part, plan.num_workers)
    problem = Problem(graph, plan.job, plan.placement)
    if plan.decision is not None:
        return prune_halos(Trial(problem, partition.part, halo, plan.decision.sparse_features), plan.decision.layers)
    chosen = {each.technique: each.choice().decision for each in plan.choices}
    trial = Trial(problem, partition.part, halo, "sparse_features" in chosen)
    return prune_halos(trial, _layers_of(chosen))


def _layers_of(chosen: Mapping[str, Contract]) -> tuple[LayerDecision, ...]:
    """The orders of operators that a plan of choices has, as pruning still takes them."""
    orders = chosen["operator_order"].model_dump()["of"].values()
    layers = [LayerDecision(op_order=order) for order in orders]
    if "first_aggregation" in chosen and layers[0].op_order == "aggregate_first":
        layers[0] = LayerDecision(op_order="aggregate_first", precompute=True)
    return tuple(layers)
