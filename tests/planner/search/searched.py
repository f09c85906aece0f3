"""Small jobs on clusters of catalog devices, and what the search finds for them."""

from dataclasses import replace

import numpy as np
import scipy.sparse as sp

from gnnplan.planner.cluster import Cluster, DeviceSpec, HostSpec, resolve
from gnnplan.planner.generate import generate_rmat, generate_sbm
from gnnplan.planner.graph_spec import RmatGraph, SbmGraph
from gnnplan.planner.job import Job
from gnnplan.planner.job_pins import PinnedDecisions
from gnnplan.planner.model_spec import ModelSpec
from gnnplan.planner.search.decide import decide
from gnnplan.profiles.machine import Link

SBM = SbmGraph(source="sbm", num_nodes=600, average_degree=10, num_classes=4, num_features=24, homophily=0.9)
GRAPHS = {
    "sbm": generate_sbm(SBM),
    "skewed": generate_rmat(RmatGraph(source="rmat", num_nodes=3000, num_edges=40_000, num_features=64)),
    "wide": generate_sbm(SBM.model_copy(update={"num_features": 900})),
}
CLUSTERS = {
    "one": [("rtx-3090", 1, 1)],
    "host": [("rtx-3090", 4, 1)],
    "network": [("t4", 1, 3)],
    "mixed": [("rtx-3090", 1, 1), ("gtx-1650", 1, 2)],
    "contrary": [("h100-sxm", 1, 1), ("rtx-2060", 2, 1), ("v100", 1, 1)],
}
KINDS = ["gcn", "sage", "gat", "gin", "tagcn"]


def cluster_of(name, *, memory_bytes=None, bytes_per_s=1e12):
    """One of the clusters above, on a network that hides nothing of the computation."""
    hosts = tuple(
        HostSpec(
            name=f"h{i}",
            count=hosts,
            devices=(DeviceSpec(catalog=device, count=count, memory_bytes=memory_bytes),),
            link=Link(bytes_per_s=bytes_per_s),
        )
        for i, (device, count, hosts) in enumerate(CLUSTERS[name])
    )
    return Cluster(hosts=hosts, device_link=Link(bytes_per_s=bytes_per_s))


def placement_of(name, **on):
    """Its workers."""
    return resolve(cluster_of(name, **on))


def job_of(model=None, fidelity="exact", **pin):
    """A job of a two-layer GCN, unless another model is given."""
    model = model or ModelSpec(hidden_channels=32)
    return Job(graph=SBM, model=model, pin=PinnedDecisions(**pin), fidelity=fidelity)


def found(graph="sbm", cluster="network", *, model=None, fidelity="exact", placement=None, on=None, **pin):
    """What the search comes to; `on` are arguments of the placement."""
    held = GRAPHS[graph] if isinstance(graph, str) else graph
    return decide(job_of(model, fidelity, **pin), placement or placement_of(cluster, **(on or {})), held)


def sparse_graph(num_features=2000, density=0.003):
    """Wide features, nearly all zero."""
    x = sp.random(600, num_features, density, "csr", np.float32, rng=np.random.default_rng(0))
    return replace(GRAPHS["sbm"], x=x)
