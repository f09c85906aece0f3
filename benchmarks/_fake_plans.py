"""Plans of the `fake_cuda` benchmark: made for GPUs of the catalog, by choices that are given."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np

from benchmarks._exactness_cases import KINDS, LAYOUTS, Case, choices_of
from benchmarks._exactness_relational import NUM_TYPES
from gnnplan.planner.cluster import Cluster, DeviceSpec, HostSpec, resolve
from gnnplan.planner.graph import Graph
from gnnplan.planner.graph_spec import SbmGraph
from gnnplan.planner.job import Job
from gnnplan.planner.job_pins import PinnedDecisions
from gnnplan.planner.link.spec import LinkSpec
from gnnplan.planner.link.split import link_graph
from gnnplan.planner.loaders import load_graph
from gnnplan.planner.partitioning.partition import partition
from gnnplan.planner.plan import Plan
from gnnplan.planner.program_shard import ProgramShard, cut_program_shard
from gnnplan.planner.readers.bound import Bound
from gnnplan.planner.readers.memory import MemoryEstimate
from gnnplan.planner.relations import EDGE_TYPE
from gnnplan.planner.search.decide import Found, setting_of
from gnnplan.planner.search.evaluate import compose_candidate
from gnnplan.planner.search.make import plan_of

GRAPH = SbmGraph(source="sbm", num_nodes=3000, average_degree=12, num_features=96, num_classes=12)
HIDDEN, REGION_BYTES = 64, 2**28
_ON_SUMS = ("first_aggregation", "feature_cache")
_ALONE = (
    ("overlap",),
    ("joint_cache",),
    ("joint_cache", "host_region"),
    ("joint_cache", "host_region", "overlap"),
    ("host_region",),
    ("replicas",),
    ("replicas", "overlap"),
    ("pruning",),
    ("sparse_features",),
    ("sparse_features", "overlap"),
    ("feature_cache",),
    ("first_aggregation",),
    ("first_aggregation", "sparse_features", "overlap"),
)
_SLICED: tuple[tuple[str, ...], ...] = (
    (),
    ("overlap",),
    ("sparse_features", "overlap"),
    ("first_aggregation", "overlap"),
)
_TOGETHER = ("sparse_features", "replicas", "host_region", "overlap", "joint_cache", "pruning")


@dataclass(frozen=True)
class Planned:
    """A plan with what its workers load, and what each is said to need."""

    case: Case
    plan: Plan
    shards: tuple[ProgramShard, ...]
    memory: tuple[MemoryEstimate, ...]


def cases(quick: bool) -> Iterator[tuple[Case, int]]:
    """Cases with numbers of workers: every technique on every model, 1 to 4 workers in turn."""
    for number, model in enumerate(KINDS):
        plain = Case(model)
        for size in (1 + number % 4,) if quick else (1, 2, 3, 4):
            yield plain, size
        yield Case(model, dropout=0.5, input_dropout=0.3), 1
        if not quick or number == 0:
            yield Case(model, ("overlap",), "aggregate_first", "feature_slices", optimizer="adam", num_groups=2), 4
        for layout in ("halo_exchange", "feature_slices") if model in ("sage", "gat") else ():
            yield Case(model, ("overlap",), layout=layout, optimizer="adam", pairs=True), 2 + number % 2
        for turn, case in enumerate(_composed(model)):
            if not quick or turn % len(KINDS) == number:
                yield case, 2 + turn % 3


def _composed(model: str) -> Iterator[Case]:
    yield Case(model, optimizer="adam", multilabel=True)
    for techniques in _SLICED:
        if model != "gat" or not set(techniques) & set(_ON_SUMS):
            yield Case(model, techniques, "aggregate_first", "feature_slices", optimizer="adam")
    for techniques in (*_ALONE, _TOGETHER):
        if model == "gat" and set(techniques) & set(_ON_SUMS):
            continue
        yield Case(model, techniques, "aggregate_first", optimizer="adam")
        if not set(techniques) & set(_ON_SUMS):
            yield Case(model, techniques, "multiply_first", dropout=0.5, input_dropout=0.3)
    for layout in LAYOUTS:
        yield Case(model, ("offload",), layout=layout, optimizer="adam", outside="host")


def planned(case: Case, size: int, device: str) -> Planned:
    """The plan of a case on so many of a catalog's devices, two a host."""
    graph = _graph(case)
    job, placement = _job(case), resolve(_cluster(size, device))
    part = partition(graph.num_nodes, graph.edge_index, size, "metis")
    candidate = compose_candidate(setting_of(job, placement, graph), choices_of(case, part, size))
    nothing = Bound(0.0, "nothing")
    plan, _ = plan_of(job, graph, Found(candidate, [candidate], (), nothing, nothing, num_sets=1, num_passed_over=0))
    shards = tuple(cut_program_shard(candidate.cycle, graph, rank) for rank in range(size))
    return Planned(case, plan, shards, candidate.memory)


def _job(case: Case) -> Job:
    model = case.model_for(GRAPH.num_features, GRAPH.num_classes, HIDDEN)
    pin = PinnedDecisions(sparse_features="sparse_features" in case.techniques or None)
    return case.job.model_copy(update={"model": model, "graph": GRAPH, "fidelity": "approximate", "pin": pin})


def _graph(case: Case) -> Graph:
    """With mostly zeros where features are sparse, and with sets of labels where those are asked for."""
    graph, rng = load_graph(GRAPH), np.random.default_rng(5)
    if "sparse_features" in case.techniques:
        graph = replace(graph, x=np.where(rng.random(graph.x.shape) < 0.1, graph.x, 0).astype(np.float32))
    if case.multilabel:
        labels = rng.random((graph.num_nodes, graph.num_classes)) < 0.3
        graph = replace(graph, y=labels.astype(np.float32))
    if case.pairs:
        return link_graph(graph, LinkSpec(width=graph.num_classes, num_ranked=20), 0).validate()
    types = {EDGE_TYPE: rng.integers(0, NUM_TYPES, graph.num_edges)}
    return replace(graph, edge_values=types if case.model == "rgcn" else {}).validate()


def _cluster(size: int, device: str) -> Cluster:
    counts = [min(2, size - first) for first in range(0, size, 2)]
    hosts = (
        HostSpec(name=f"h{number}", devices=(DeviceSpec(catalog=device, count=count),), region_bytes=REGION_BYTES)
        for number, count in enumerate(counts)
    )
    return Cluster(schema_version=1, name="pretended", hosts=tuple(hosts))
