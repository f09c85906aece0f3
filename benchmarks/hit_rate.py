"""Hit rate of the joint cache against its capacity: overlap priority, FIFO and LRU, on 2 and 4 parts of real graphs.

All parts lie on one host: every worker has its device's tier, and all share the host's region. Both tiers have the
same capacity, given as a share of the full coverage: the largest halo, so that every device holds all it reads.
Rates are those of an epoch between two refreshes, after the first ones. FIFO and LRU are played with inclusive tiers
and with exclusive ones (`benchmarks/oracles/hits.py`): what priority finds more than the exclusive ones is its own,
the rest is placement.

`at_once` is what a collective exchange does, and what `on_top_everywhere` is about: that priority is never below. It
may be no more than that: at once nothing displaced is found again, so where a row has one reader, as with 2 parts, all
policies find as many as they have room for. `at_once` in the result counts capacities at which priority is above the
best of the others, and those at which it ties. `one_by_one` is the textbook's cache: FIFO and LRU displace what is
needed next, but four workers that read in lockstep also find what another one received a moment before. That is not
a row kept from the epoch before but one received once for several readers, which plans have for rows of a region
(where all travel, one comes to a host once) and not for those kept nowhere. At small capacities it puts FIFO or LRU on
top: such rows are listed under `exceptions`, so priority is on top at every capacity of an exchange, not of any cache.
"""

from __future__ import annotations

import numpy as np
from rich.console import Console
from rich.table import Table

from benchmarks._common import DATASETS
from benchmarks.oracles.halo import build_halo
from benchmarks.oracles.hits import Lookups, Placement, Policy, play
from gnnplan.planner.adjacency import aggregation_matrix
from gnnplan.planner.generate import generate_rmat
from gnnplan.planner.graph import Graph
from gnnplan.planner.graph_spec import NpzGraph, RmatGraph
from gnnplan.planner.loaders import load_graph
from gnnplan.planner.partitioning.partition import partition

GRAPHS = ("coauthor_physics", "fb100_cornell5")
OVERLAP = "overlap"
OTHERS: dict[str, tuple[Policy, Placement]] = {
    "fifo": ("fifo", "inclusive"),
    "lru": ("lru", "inclusive"),
    "fifo_exclusive": ("fifo", "exclusive"),
    "lru_exclusive": ("lru", "exclusive"),
}
CACHES: dict[str, tuple[Policy, Placement]] = {OVERLAP: ("overlap", "exclusive"), **OTHERS}
LOOKUPS: tuple[Lookups, ...] = ("at_once", "one_by_one")
NUM_PARTS = (2, 4)
SHARES = (0.02, 0.05, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 1.0)
_NUM_EPOCHS = 5  # FIFO and LRU are steady after three


def main(quick: bool) -> dict:
    """Plays every policy at every capacity."""
    skipped = [] if quick else [name for name in GRAPHS if not (DATASETS / f"{name}.npz").exists()]
    rows = [row for graph in _graphs(quick) for size in NUM_PARTS for row in _rows(graph, size)]
    at_once = [row for row in rows if row["lookups"] == "at_once"]
    _show(rows)
    return {
        "on_top_everywhere": all(_lead(row) >= 0 for row in at_once),
        "at_once": [_counts(at_once, size) for size in NUM_PARTS],
        "exceptions": [row for row in rows if row["lookups"] == "one_by_one" and _lead(row) < 0],
        "least_rate_at_coverage": min(row[OVERLAP] for row in rows if row["share_of_coverage"] == 1),
        "skipped": [f"{name}: the real graphs are not part of the repository" for name in skipped],
        "rows": rows,
    }


def _lead(row: dict) -> float:
    """Of priority over the best of the others."""
    return row[OVERLAP] - max(row[name] for name in OTHERS)


def _counts(rows: list[dict], num_parts: int) -> dict:
    leads = [_lead(row) for row in rows if row["parts"] == num_parts]
    return {"parts": num_parts, "above": sum(lead > 0 for lead in leads), "ties": leads.count(0)}


def _graphs(quick: bool) -> list[Graph]:
    size = (1_500, 20_000) if quick else (60_000, 2_000_000)
    generated = generate_rmat(RmatGraph(source="rmat", num_nodes=size[0], num_edges=size[1], num_features=1))
    if quick:
        return [generated]
    found = [DATASETS / f"{name}.npz" for name in GRAPHS]
    real = [load_graph(NpzGraph(source="npz", path=path, split="random")) for path in found if path.exists()]
    return [*real, generated]


def _rows(graph: Graph, num_parts: int) -> list[dict]:
    part = partition(graph.num_nodes, graph.edge_index, num_parts, "metis")
    halo = build_halo(aggregation_matrix(graph.num_nodes, graph.edge_index, "gcn"), part, num_parts)
    halos = [block.halo for block in halo.blocks]
    coverage = max(map(len, halos))
    return [
        {
            "graph": graph.name,
            "parts": num_parts,
            "lookups": lookups,
            "share_of_coverage": share,
            "capacity_rows": round(share * coverage),
            **{name: _rate(halos, round(share * coverage), lookups, *cache) for name, cache in CACHES.items()},
        }
        for lookups in LOOKUPS
        for share in SHARES
    ]


def _rate(halos: list[np.ndarray], rows: int, lookups: Lookups, policy: Policy, placement: Placement) -> float:
    epochs = play(
        halos,
        device_rows=rows,
        region_rows=rows,
        policy=policy,
        num_epochs=_NUM_EPOCHS,
        lookups=lookups,
        placement=placement,
    )
    return epochs[-1].rate


def _show(rows: list[dict]) -> None:
    table = Table(title="hit rate against capacity (share of the largest halo, in either tier)")
    for column in ("graph", "parts", "lookups", "capacity", *CACHES):
        table.add_column(column, justify="left" if column in ("graph", "lookups") else "right")
    for row in rows:
        rates = (f"{row[name]:.1%}" for name in CACHES)
        lookups = row["lookups"].replace("_", " ")
        table.add_row(row["graph"], str(row["parts"]), lookups, f"{row['share_of_coverage']:.0%}", *rates)
    Console().print(table)
