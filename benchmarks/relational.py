"""R-GCN on real knowledge graphs, given as PyG's `HeteroData`, against one PyG process: losses, accuracy, time.

The model is that of PyG's example: two layers, 16 wide, 30 bases, a weight for every vertex, inverse relations, 50
epochs of Adam. Workers have rows, or columns. PyG trains `RGCNConv` and `FastRGCNConv`, whichever is faster, on all
cores; so do our workers together. Losses of every epoch are compared for the first seed, accuracies for all.
Every setting is kept as it ends, so an interrupted benchmark goes on; `missing` names what is left.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from functools import partial
from pathlib import Path

import numpy as np
import torch
from rich.console import Console
from rich.table import Table
from torch import Tensor, nn
from torch.nn import functional
from torch_geometric.data import HeteroData
from torch_geometric.nn import FastRGCNConv, RGCNConv

import gnnplan
from benchmarks._common import OUT, dataset, fingerprint_of, this_machine
from benchmarks._results import Parts
from gnnplan.profiles.profiler import num_usable_cores

GRAPHS = ("rdf_aifb", "rdf_mutag")
NUM_WORKERS, NUM_SEEDS, NUM_EPOCHS = (1, 2), 3, 50
WIDTH, NUM_BASES = 16, 30
_FILE = "relational"
_KINDS = ("resource", "blank", "literal")
_LAYOUTS: dict[str, dict] = {"rows": {}, "columns": {"feature_slices": {"num_groups": 1}}}
_TRAINING = {"epochs": NUM_EPOCHS, "learning_rate": 0.01, "weight_decay": 5e-4}


class RelationalNet(nn.Module):
    """Schlichtkrull et al. (2018), equations 2 and 3; `x` are features, or the ids of vertices that each have one."""

    def __init__(self, num_nodes: int, num_classes: int, num_types: int, conv: type[RGCNConv] = RGCNConv) -> None:
        super().__init__()
        self.first = conv(num_nodes, WIDTH, num_types, num_bases=NUM_BASES)
        self.last = conv(WIDTH, num_classes, num_types, num_bases=NUM_BASES)

    def forward(self, x: Tensor, edge_index: Tensor, edge_type: Tensor) -> Tensor:
        """[N, classes]."""
        return self.last(functional.relu(self.first(x, edge_index, edge_type)), edge_index, edge_type)


def main(quick: bool) -> dict:
    """Trains every graph on every number of workers; quick: the second one, two workers, one seed, few epochs.

    Then plans are searched for a few seconds alone.
    """
    graphs, workers, seeds = (GRAPHS[1:], (2,), 1) if quick else (GRAPHS, NUM_WORKERS, NUM_SEEDS)
    search = {"longest_s": 3} if quick else {}
    training = {**_TRAINING, "epochs": 8 if quick else NUM_EPOCHS}
    folder = OUT / f"{_FILE}{'_quick' if quick else ''}"
    settings = {
        f"{name} {count} {layout}": (name, count, layout)
        for name in graphs
        for count in workers
        for layout in list(_LAYOUTS)[: 1 if count == 1 else None]  # one worker alone has all rows and columns
    }
    prints = {
        "pyg": {name: fingerprint_of([name, training, seeds]) for name in graphs},
        "rows": {key: fingerprint_of([setting, training, seeds]) for key, setting in settings.items()},
    }
    parts = Parts(_FILE, prints, _figures, is_kept=not quick)
    for name in graphs:
        parts.add("pyg", name, partial(_by_pyg, name, training, seeds))
    for key, setting in settings.items():
        parts.add("rows", key, partial(_by_workers, *setting, training, search, seeds, folder, parts.found["pyg"]))
    record = parts.record()
    _show(record["rows"])
    return record


def hetero_graph(name: str) -> HeteroData:
    """Kinds of vertices by what an RDF term is, and of edges by their relation; nobody has features."""
    with np.load(dataset(name), allow_pickle=False) as file:
        held = {key: file[key] for key in file.files}
    kind = held["node_kind"].astype(np.int64)
    place = np.zeros(len(kind), np.int64)  # among those of its kind
    data = HeteroData()
    for number, words in enumerate(_KINDS):
        own = np.flatnonzero(kind == number)
        place[own] = np.arange(len(own))
        if len(own):
            data[words].num_nodes = len(own)
        if np.any(held["y"][own] >= 0):
            data[words].y = torch.from_numpy(held["y"][own].astype(np.int64))
            train, test = held["train_mask"][own], held["test_mask"][own]
            masks = {"train_mask": train, "val_mask": np.zeros_like(test), "test_mask": test}
            data[words].update({key: torch.from_numpy(mask) for key, mask in masks.items()})
    source, target = held["edge_index"].astype(np.int64)
    of_edge = np.stack([kind[source], held["edge_type"].astype(np.int64), kind[target]])
    for first, relation, last in np.unique(of_edge, axis=1).T:
        own = np.flatnonzero((of_edge == [[first], [relation], [last]]).all(0))
        edges = np.stack([place[source[own]], place[target[own]]])
        data[_KINDS[first], f"r{relation}", _KINDS[last]].edge_index = torch.from_numpy(edges)
    return data


def _net(data: HeteroData, seed: int, conv: type[RGCNConv] = RGCNConv) -> RelationalNet:
    (classes,) = (int(store.y.max()) + 1 for store in data.node_stores if "y" in store)
    torch.manual_seed(seed)
    return RelationalNet(data.num_nodes, classes, 2 * len(data.edge_types), conv)


def _by_pyg(name: str, training: Mapping[str, float], seeds: int) -> dict:
    """Losses, accuracies and seconds of the faster of PyG's two layers."""
    torch.set_num_threads(num_usable_cores())
    data = hetero_graph(name)
    tried = {
        conv: _trained(_net(data, 0, conv), data, training | {"epochs": 5})[2] for conv in (RGCNConv, FastRGCNConv)
    }
    conv = min(tried, key=lambda each: tried[each])
    found = [_trained(_net(data, seed, conv), data, training) for seed in range(seeds)]
    return {
        "layer": conv.__name__,
        "losses": found[0][0],
        "accuracy_pct": [accuracy for _, accuracy, _ in found],
        "epoch_s": float(np.median([epoch_s for *_, epoch_s in found])),
    }


def _trained(net: RelationalNet, data: HeteroData, training: Mapping[str, float]) -> tuple[list[float], float, float]:
    """Losses, accuracy of the test vertices in percent, and the median seconds of an epoch."""
    whole = data.to_homogeneous()
    edges = torch.cat([whole.edge_index, whole.edge_index.flip(0)], 1)
    types = torch.cat([whole.edge_type, whole.edge_type + len(data.edge_types)])
    given = (torch.arange(whole.num_nodes), edges, types)
    optimizer = torch.optim.Adam(net.parameters(), training["learning_rate"], weight_decay=training["weight_decay"])
    losses, seconds = [], []
    for _ in range(int(training["epochs"])):
        begun_s = time.perf_counter()
        optimizer.zero_grad()
        loss = functional.cross_entropy(net(*given)[whole.train_mask], whole.y[whole.train_mask])
        loss.backward()
        optimizer.step()
        losses.append(float(loss.detach()))
        seconds.append(time.perf_counter() - begun_s)
    with torch.no_grad():
        right = (net(*given).argmax(1) == whole.y)[whole.test_mask].float().mean()
    return losses, 100 * float(right), float(np.median(seconds[1:]))


def _by_workers(
    name: str,
    workers: int,
    layout: str,
    training: Mapping[str, float],
    search: Mapping[str, float],
    seeds: int,
    folder: Path,
    pyg: Mapping[str, Mapping],
) -> dict:
    data, cluster = hetero_graph(name), this_machine(workers, quick=True, folder=OUT)
    options = {"source": "memory", "one_hot_features": True, "inverse_edge_types": True}
    found = []
    for seed in range(seeds):
        job = {
            "name": f"{name}-{workers}-{layout}-{seed}",
            "graph": options,
            "training": {**training, "seed": seed},
            "search": search,
            "pin": {"num_workers": workers, "balance": "speed", "decisions": _LAYOUTS[layout]},
        }
        trained = gnnplan.train(job, cluster, folder / job["name"], graph=data, model=_net(data, seed))
        found.append((trained.measured, trained.plan))
    trace, plan = found[0]
    theirs = np.array(pyg[name]["losses"])
    return {
        "graph": name,
        "workers": workers,
        "layout": layout,
        "loss_rel": float(np.max(np.abs(np.array(trace.losses) / theirs - 1))),
        "accuracy_pct": [100 * each.accuracy["test"] for each, _ in found],
        "pyg_accuracy_pct": pyg[name]["accuracy_pct"],
        "epoch_s": float(np.median([each.median_epoch_s for each, _ in found])),
        "predicted_s": plan.prediction.expected_epoch_s,
        "epoch_speedup": pyg[name]["epoch_s"] / float(np.median([each.median_epoch_s for each, _ in found])),
    }


def _figures(parts: Mapping[str, Mapping[str, dict]]) -> dict:
    rows = list(parts["rows"].values())
    gaps = [abs(np.mean(row["accuracy_pct"]) - np.mean(row["pyg_accuracy_pct"])) for row in rows]
    return {
        "worst_loss_rel": max((row["loss_rel"] for row in rows), default=None),
        "worst_accuracy_gap_pct": float(max(gaps)) if gaps else None,
        "best_epoch_speedup": max((row["epoch_speedup"] for row in rows), default=None),
    }


def _show(rows: list[dict]) -> None:
    table = Table(title="R-GCN, workers against one PyG process, same cores")
    for column in ("graph", "workers", "layout", "losses off by", "accuracy", "PyG", "epoch", "speed-up"):
        table.add_column(column, justify="left" if column in ("graph", "layout") else "right")
    for row in rows:
        table.add_row(
            row["graph"],
            str(row["workers"]),
            row["layout"],
            f"{row['loss_rel']:.1e}",
            f"{np.mean(row['accuracy_pct']):.1f}%",
            f"{np.mean(row['pyg_accuracy_pct']):.1f}%",
            f"{row['epoch_s'] * 1e3:.1f} ms",
            f"{row['epoch_speedup']:.1f}x",
        )
    Console().print(table)
