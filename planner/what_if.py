"""What if: machines one does not have, and the same job on them in several variants, predicted side by side."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from pydantic import PositiveFloat

from gnnplan.planner.cluster import Cluster, DeviceSpec, HostSpec
from gnnplan.planner.graph import Graph
from gnnplan.planner.job import Job
from gnnplan.planner.money import Choice
from gnnplan.planner.plan import Plan
from gnnplan.planner.plan_files import Partition
from gnnplan.planner.search import make_plan
from gnnplan.planner.search.decide import OnStep
from gnnplan.planner.train import write_plan
from gnnplan.profiles.catalog import catalog_profile
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


def compare_clusters(
    job: Job, clusters: Mapping[str, Cluster], graph: Graph, folder: Path, on_step: OnStep = lambda _: None
) -> list[Choice]:
    """One job planned on several clusters; each plan is written to `folder/NAME.json`.

    Args:
        on_step: told in words what the planner does.
    """
    choices = []
    for name, cluster in clusters.items():
        say = partial(_on_cluster, on_step, name)
        try:
            choices.append(Choice(name, write_plan(job, cluster, graph, folder / f"{name}.json", say)))
        except NoPlanFitsError as error:
            choices.append(Choice(name, None, str(error)))
    return choices


def _on_cluster(on_step: OnStep, name: str, words: str) -> None:
    on_step(f"{name}: {words}")
