"""How far plans are from the bounds that are printed beside them, on devices of the catalog; nothing is measured."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product

import numpy as np

from gnnplan.planner.cluster import Cluster, DeviceSpec, HostSpec, Placement, resolve
from gnnplan.planner.generate import generate_rmat
from gnnplan.planner.graph import Graph
from gnnplan.planner.graph_spec import RmatGraph
from gnnplan.planner.job import Job
from gnnplan.planner.model_spec import ModelSpec
from gnnplan.planner.search.decide import decide
from gnnplan.profiles.machine import Link

GRAPH = RmatGraph(source="rmat", num_nodes=3000, num_edges=40_000, num_features=64)
_CLUSTERS = {
    "network": [("t4", 1)] * 3,
    "mixed": [("rtx-3090", 1), ("gtx-1650", 1), ("gtx-1650", 1)],
    "host": [("rtx-3090", 4)],
}
_RATES = (1e8, 1e9, 1e10)
_KINDS: tuple[...] = ("gcn", "sage", "gat")
_GAPS = ("any_plan", "searched", "own_work")


def main(quick: bool) -> dict:
    """Gaps of 27 settings: three clusters, three speeds of their links, three models."""
    graph = generate_rmat(GRAPH)
    rows = list(_rows(graph, _RATES[1:2] if quick else _RATES, _KINDS[:1] if quick else _KINDS))
    found: dict = {"settings": len(rows)}
    for name in _GAPS:
        gaps = [row[name] for row in rows]
        found |= {f"median_gap_{name}": float(np.median(gaps)), f"worst_gap_{name}": max(gaps)}
    return {**found, "rows": rows}


def _rows(graph: Graph, rates: tuple[float, ...], kinds: tuple[...]) -> Iterator[dict]:
    for rate, cluster, kind in product(rates, _CLUSTERS, kinds):
        result = decide(
            Job(graph=GRAPH, model=ModelSpec(kind=kind, hidden_channels=64)), _placement(cluster, rate), graph
        )
        epoch_s = result.best.epoch_s
        yield {
            "cluster": cluster,
            "bytes_per_s": rate,
            "model": kind,
            "num_workers": result.best.setting.num_workers,
            "num_candidates": len(result.looked_at),
            "any_plan": epoch_s / result.bound.seconds - 1,
            "searched": epoch_s / result.searched.seconds - 1,
            "own_work": epoch_s / result.best.bound.seconds - 1,
            "searched_set_by": result.searched.set_by,
        }


def _placement(cluster: str, rate: float) -> Placement:
    link = Link(bytes_per_s=rate)
    hosts = (
        HostSpec(name=f"h{index}", devices=(DeviceSpec(catalog=device, count=count),), link=link)
        for index, (device, count) in enumerate(_CLUSTERS[cluster])
    )
    return resolve(Cluster(hosts=tuple(hosts), device_link=link))
