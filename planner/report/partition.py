"""A picture of who has what: each worker's vertices and memory, and the edges between workers."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from gnnplan.planner.graph import Graph
from gnnplan.planner.plan import Plan
from gnnplan.planner.plan_files import Partition
from gnnplan.profiles.contract import replacing

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_OWN, _HALO, _USED, _FREE = "#4477aa", "#ee6677", "#228833", "#dddddd"
_MOST_NUMBERS = 8  # workers whose edges are written as numbers too
_GIB = 2.0**30


def write_partition_picture(path: Path, plan: Plan, partition: Partition, graph: Graph) -> Path:
    """A PNG with three parts: vertices of each worker, edges from worker to worker, memory against capacity.

    Where the plan gives no vertex an owner, edges between workers are left out.
    """
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    tall = 1.6 + 0.35 * plan.num_workers
    figure, (vertices, edges, memory) = plt.subplots(1, 3, figsize=(14, max(tall, 3.2)), layout="constrained")
    _draw_vertices(vertices, plan)
    _draw_edges(edges, partition.part, graph, plan.num_workers)
    _draw_memory(memory, plan)
    with replacing(path) as temporary:
        figure.savefig(temporary, dpi=110)
    plt.close(figure)
    return path


def edges_between(part: np.ndarray, edge_index: np.ndarray, num_workers: int) -> np.ndarray:
    """int64 [P, P]: edges from a vertex of the row's worker to one of the column's.

    Args:
        part: int32 [N], the owner of every vertex.
        edge_index: [2, E].
    """
    pairs = part[edge_index[0]].astype(np.int64) * num_workers + part[edge_index[1]]
    return np.bincount(pairs, minlength=num_workers**2).reshape(num_workers, num_workers)


def _names(plan: Plan) -> list[str]:
    return [f"{rank} ({worker.host})" for rank, worker in enumerate(plan.placement.workers)]


def _draw_vertices(axes: Axes, plan: Plan) -> None:
    own, halo = ([share[index] for share in plan.shares()] for index in (0, 2))
    axes.barh(_names(plan), own, color=_OWN, label="own vertices")
    axes.barh(_names(plan), halo, left=own, color=_HALO, label="received from others (halo)")
    axes.invert_yaxis()
    axes.set_title("vertices of each worker")
    axes.legend(frameon=False, loc="upper center", bbox_to_anchor=(0.5, -0.12), ncols=2)


def _draw_edges(axes: Axes, part: np.ndarray, graph: Graph, num_workers: int) -> None:
    if not part.size:
        axes.set_axis_off()
        return
    counts = edges_between(part, graph.edge_index, num_workers)
    cut = 1 - counts.trace() / max(counts.sum(), 1)
    axes.imshow(counts, cmap="Blues")
    if num_workers <= _MOST_NUMBERS:
        for (source, target), count in np.ndenumerate(counts):
            color = "white" if count > counts.max() / 2 else "black"
            axes.text(target, source, f"{count:,}", ha="center", va="center", color=color, fontsize=8)
    axes.set_xticks(range(num_workers))
    axes.set_yticks(range(num_workers))
    axes.set_xlabel("to worker")
    axes.set_ylabel("from worker")
    axes.set_title(f"edges; {cut:.1%} between workers")


def _draw_memory(axes: Axes, plan: Plan) -> None:
    names, loads = _names(plan), plan.prediction.workers
    axes.barh(names, [load.capacity_bytes / _GIB for load in loads], color=_FREE, label="capacity")
    axes.barh(names, [load.peak_bytes / _GIB for load in loads], color=_USED, label="predicted peak")
    axes.invert_yaxis()
    axes.set_title("memory of each worker, GiB")
    axes.legend(frameon=False, loc="upper center", bbox_to_anchor=(0.5, -0.12), ncols=2)
