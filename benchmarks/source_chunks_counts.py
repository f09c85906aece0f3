"""What source chunks do that needs no timing: shares of a step, balance between parts, and ages of what is used.

Everything is counted from the graph, the parts and the draws.

- `worst_edge_share_error`, `worst_row_share_error`: how far edges and halo rows of single steps are from 1/B of an
  epoch's, at the most. Their mean over a pass is 1/B by construction, so it is not reported. Chunks of as many vertices
  and no more (`equal`, the paper's) stand beside those of as many edges (`balanced`, our default).
- `imbalance`: of the rows that parts send in a step, the most over the fewest, in the mean over steps (Emma, table 11;
  1.38 on 16 parts of Reddit). B = 1 is how uneven the parts are themselves. Beside it stands node-wise sampling: every
  part draws its share of a batch as large as a chunk, and 8 neighbours of each vertex in each of 3 layers.
- `staleness`: after 3 passes, how many steps ago each target's row of the last layer was last renewed (figure 2). Under
  chunks a neighbour that pushes renews it; under node-wise sampling its own turn in a batch; under layer-wise sampling
  its being drawn, in proportion to its degree.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from rich.console import Console
from rich.table import Table

from benchmarks._chunks_settings import Row
from benchmarks._common import fingerprint_of, why_absent
from benchmarks._emulated import loaded
from benchmarks._results import about, keep, kept_parts, record_of
from gnnplan.planner.chunks.draw import Draws, chunk_of
from gnnplan.planner.graph import Graph
from gnnplan.planner.partitioning.partition import Partitioning

_FILE, _SEED = "source_chunks_counts", 0
_PARTS, _COUNTS = (2, 4, 8, 16), (1, 2, 5, 10, 20, 28)
_DRAWS: tuple[Draws, ...] = ("balanced", "equal")
_PAPERS_COUNT = 28  # Reddit's 233 thousand vertices in chunks of 8192
_NEIGHBORS, _LAYERS, _PASSES = 8, 3, 3
_BINS = (1, 4, 10, 30, 70)
"""Ages in steps: below 1, below 4, and so on, then all above."""


def main(quick: bool) -> dict:
    """Counts the graphs that are not kept; the quick form keeps nothing."""
    names = ("small",) if quick else ("fb100_cornell5", "flickr7k", "facebook_page_page", "reddit-shaped")
    rows = {name: Row(name, "sage", 3, 1) for name in names}
    rows = {name: row for name, row in rows.items() if not why_absent(name, row.graph)}
    of_all = [_PARTS, _COUNTS, _DRAWS, _NEIGHBORS, _LAYERS, _PASSES, _BINS]
    prints = {name: fingerprint_of([name, *of_all]) for name in rows}
    results = {} if quick else kept_parts(_FILE, "graphs", "graph", prints)
    for name, row in rows.items():
        if name not in results:
            found = _of(loaded(row.graph), _PARTS[:2] if quick else _PARTS)
            results[name] = {"graph": name, "settings": prints[name], **about(), **found}
            if not quick:
                keep(_FILE, record_of(_FILE, _summary(results)))
    _show(results)
    return _summary(results)


def _of(graph: Graph, parts: tuple[int, ...]) -> dict:
    source, target = graph.edge_index[:, graph.edge_index[0] != graph.edge_index[1]]
    balance, num_edges = [], np.bincount(source, minlength=graph.num_nodes)
    whole = Partitioning(graph.num_nodes, graph.edge_index)
    for count in parts:
        loads = Loads(graph.num_nodes, source, target, whole.into(count, "metis", seed=_SEED))
        balance.append({"parts": count, "node_wise": loads.of_sampling(_PAPERS_COUNT)} | _by_draws(loads, num_edges))
    return {"imbalance": balance, "staleness": _staleness(graph.num_nodes, source, target, _PAPERS_COUNT)}


def _by_draws(loads: Loads, num_edges: np.ndarray) -> dict:
    found = {}
    for draws in _DRAWS:
        cut = {number: chunk_of(num_edges, number, _SEED, draws=draws) for number in _COUNTS}
        found[draws] = {
            "step_share_errors": {str(number): loads.share_errors(of, number) for number, of in cut.items()},
            "chunks": {str(number): loads.imbalance(of, number) for number, of in cut.items()},
        }
    return found


class Loads:
    """Who sends how many rows on a graph in parts.

    Args:
        source, target: int [E], without self loops.
        part: int [N].
    """

    def __init__(self, num_nodes: int, source: np.ndarray, target: np.ndarray, part: np.ndarray) -> None:
        self.source, self.target, self.part = source, target, part
        self.num_parts = int(part.max()) + 1
        crosses = part[source] != part[target]
        pairs = np.unique(source[crosses].astype(np.int64) * self.num_parts + part[target[crosses]])
        self.rows = np.bincount(pairs // self.num_parts, minlength=num_nodes)  # of a vertex, to other parts

    def imbalance(self, chunk: np.ndarray, count: int) -> float:
        """The most that a part sends in a step over the fewest, in the mean."""
        sent = np.zeros((count, self.num_parts))
        np.add.at(sent, (chunk, self.part), self.rows)
        return float(np.mean(sent.max(1) / np.maximum(sent.min(1), 1)))

    def share_errors(self, chunk: np.ndarray, count: int) -> list[float]:
        """Of halo rows and of edges: how far the step that is furthest is from 1/B of all."""
        rows = np.bincount(chunk, weights=self.rows, minlength=count) / max(self.rows.sum(), 1)
        edges = np.bincount(chunk[self.source], minlength=count) / len(self.source)
        return [float(np.abs(each * count - 1).max()) for each in (rows, edges)]

    def of_sampling(self, count: int) -> float:
        """The same of node-wise sampling, whose batches have a count-th of the vertices; over 5 batches."""
        order = np.argsort(self.target, kind="stable")
        begins = np.searchsorted(self.target[order], np.arange(len(self.part) + 1))
        rng, found = np.random.default_rng(_SEED), []
        for _ in range(5):
            sent = np.zeros(self.num_parts)
            for part in range(self.num_parts):
                mine = np.flatnonzero(self.part == part)
                batch = rng.choice(mine, max(1, len(mine) // count), replace=False)
                needed = _sampled(self.source[order], begins, batch, rng)
                sent += np.bincount(self.part[needed[self.part[needed] != part]], minlength=self.num_parts)
            found.append(sent.max() / max(sent.min(), 1))
        return float(np.mean(found))


def _sampled(source: np.ndarray, begins: np.ndarray, batch: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """All vertices whose rows some layers of sampled neighbours need."""
    needed = front = batch
    for _ in range(_LAYERS):
        degree = begins[front + 1] - begins[front]
        front = front[degree > 0]
        at = (rng.random((_NEIGHBORS, len(front))) * degree[degree > 0]).astype(np.int64)
        front = np.unique(source[begins[front] + at])
        needed = np.union1d(needed, front)
    return needed


def _staleness(num_nodes: int, source: np.ndarray, target: np.ndarray, count: int) -> dict[str, list[float]]:
    reached = np.unique(target)
    of_each = {
        "chunks": _renewed_by_chunks(num_nodes, source, target, count),
        "node_wise": _renewed_in_batches(num_nodes, count),
        "layer_wise": _renewed_by_degree(np.bincount(target, minlength=num_nodes), count),
    }
    return {name: _histogram(ages(turns, num_nodes)[reached]) for name, turns in of_each.items()}


def _renewed_by_chunks(num_nodes: int, source: np.ndarray, target: np.ndarray, count: int) -> Iterator[np.ndarray]:
    chunk = chunk_of(np.bincount(source, minlength=num_nodes), count, _SEED)
    for step in range(_PASSES * count):
        yield target[chunk[source] == step % count]


def _renewed_in_batches(num_nodes: int, count: int) -> Iterator[np.ndarray]:
    for shuffle in range(_PASSES):
        batch = chunk_of(np.ones(num_nodes, np.int64), count, _SEED, shuffle)
        for step in range(count):
            yield np.flatnonzero(batch == step)


def _renewed_by_degree(degree: np.ndarray, count: int) -> Iterator[np.ndarray]:
    rng, size = np.random.default_rng(_SEED), min(len(degree) // count, np.count_nonzero(degree))
    for _ in range(_PASSES * count):
        yield rng.choice(len(degree), size, replace=False, p=degree / degree.sum())


def ages(turns: Iterator[np.ndarray], num_nodes: int) -> np.ndarray:
    """int [N]: steps since each vertex was in a turn; of who never was, all steps and one more."""
    last, number = np.full(num_nodes, -1), 0
    for number, renewed in enumerate(turns):
        last[renewed] = number
    return number - last


def _histogram(age: np.ndarray) -> list[float]:
    """Shares of ages between the bins' ends."""
    counts = np.bincount(np.searchsorted(_BINS, age, side="right"), minlength=len(_BINS) + 1)
    return [float(each) for each in counts / len(age)]


def _summary(results: dict[str, dict]) -> dict:
    last = [result["imbalance"][-1] for result in results.values()]
    return {
        "worst_row_share_error": _worst_errors(results, 0),
        "worst_edge_share_error": _worst_errors(results, 1),
        "worst_imbalance_at_most_parts": {
            draws: max((each[draws]["chunks"][str(_PAPERS_COUNT)] for each in last), default=None) for draws in _DRAWS
        },
        "age_bins": _BINS,
        "graphs": list(results.values()),
    }


def _worst_errors(results: dict[str, dict], place: int) -> dict[str, float | None]:
    """By draws, that of all graphs, parts and counts; place 0 is halo rows, 1 edges."""
    rows = [each for result in results.values() for each in result["imbalance"]]
    return {
        draws: max((e[place] for row in rows for e in row[draws]["step_share_errors"].values()), default=None)
        for draws in _DRAWS
    }


def _show(results: dict[str, dict]) -> None:
    table = Table(title=f"{_PAPERS_COUNT} chunks: steps' shares, and rows sent by parts, the most over the fewest")
    for column in ("graph", "parts", "draws", "edges off", "rows off", "most/fewest", "B = 1", "node-wise"):
        table.add_column(column, justify="left" if column in ("graph", "draws") else "right")
    for name, result in results.items():
        for each in result["imbalance"]:
            for draws in _DRAWS:
                rows, edges = each[draws]["step_share_errors"][str(_PAPERS_COUNT)]
                factors = (each[draws]["chunks"][str(_PAPERS_COUNT)], each[draws]["chunks"]["1"], each["node_wise"])
                shares = (f"{edges:.1%}", f"{rows:.1%}")
                table.add_row(name, str(each["parts"]), draws, *shares, *(f"{factor:.2f}" for factor in factors))
    Console(width=110).print(table)
