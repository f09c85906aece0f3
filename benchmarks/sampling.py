"""The neighbour sampler's claims: draws uniform in every hop, nothing drawn twice.

Uniform is tested by chi-square: over many batches, each edge of a target must be drawn as often as any
other. Targets of a hop are tested together, hops apart, and each hop at a level divided by their number
(Bonferroni). A sampler that leans one way makes the statistic too large, one that takes turns makes it too
small: both ends of the distribution count.
"""

from __future__ import annotations

import os

import numpy as np
import torch
from rich.console import Console
from rich.table import Table
from scipy.stats import chi2

from gnnplan.planner.generate import generate_rmat
from gnnplan.planner.graph_spec import RmatGraph
from gnnplan.profiles.kernels.csc import Csc, csc_from_edges
from gnnplan.profiles.kernels.sampling import NeighbourSampler, hop_key

LEVEL = 0.01
MIN_EXPECTED = 10  # draws of each edge of a target that is tested; fewer are no chi-square
FAN_OUTS = (10, 5, 3)
NUM_SEEDS = 64


def main(quick: bool) -> dict:
    """Samples many batches from a small R-MAT graph, whose degrees reach from none to hundreds."""
    num_batches = 1500 if quick else 15_000
    spec = RmatGraph(source="rmat", num_nodes=1000, num_edges=30_000, num_features=1, num_classes=2)
    graph = csc_from_edges(generate_rmat(spec).edge_index, spec.num_nodes)
    drawn, no_duplicates = _count(graph, num_batches)
    rows = [
        uniformity(graph, counts, fan_out) | {"hop": hop} for hop, (counts, fan_out) in enumerate(zip(drawn, FAN_OUTS))
    ]
    level = LEVEL / len(rows)
    _show(rows)
    return {
        "uniform": all(level / 2 < row["p_value"] < 1 - level / 2 for row in rows),
        "no_duplicates": no_duplicates,
        **_cpu_equals_gpu(graph, 3 if quick else 50),
        "level": LEVEL,
        "level_of_a_hop": level,
        "num_batches": num_batches,
        "num_draws": int(sum(counts.sum() for counts in drawn)),
        "max_degree": int(np.diff(graph.indptr).max()),
        "rows": rows,
    }


def _count(graph: Csc, num_batches: int) -> tuple[np.ndarray, bool]:
    """How often each position was drawn, [hops, E], and whether none was drawn twice in a batch."""
    drawn = np.zeros((len(FAN_OUTS), len(graph.indices)), np.int64)
    position_of = np.arange(len(graph.indices)) if graph.edge_ids is None else np.argsort(graph.edge_ids)
    sampler, rng, no_duplicates = NeighbourSampler(graph), np.random.default_rng(0), True
    for batch in range(num_batches):
        seeds = rng.choice(graph.num_vertices, NUM_SEEDS, replace=False)
        done = sampler.sample(seeds, FAN_OUTS, [hop_key(0, 0, batch, hop) for hop in range(len(FAN_OUTS))])
        positions = position_of[done.e_id.numpy()]
        no_duplicates &= len(np.unique(positions)) == len(positions)
        for hop, part in enumerate(np.split(positions, np.cumsum(done.num_edges)[:-1])):
            np.add.at(drawn[hop], part, 1)
    return drawn, no_duplicates


def uniformity(graph: Csc, drawn: np.ndarray, fan_out: int) -> dict:
    """Chi-square over the targets with more in-neighbours than the fan-out and draws enough.

    Of one target with d neighbours, k of them a draw and n draws, an edge is drawn n k / d times with
    variance n (k / d) (1 - k / d), and two edges exclude each other: (d - 1) / d of the sum of
    squares over the variance is chi-square with d - 1 degrees of freedom.
    """
    degree = np.diff(graph.indptr)
    per_target = np.add.reduceat(np.append(drawn, 0), graph.indptr[:-1]) * (degree > 0)
    tested = (degree > fan_out) & (per_target >= MIN_EXPECTED * degree)
    target = np.repeat(np.arange(graph.num_vertices), degree)
    at = tested[target]
    d = degree[target[at]]
    expected = per_target[target[at]] / d
    squares = (drawn[at] - expected) ** 2 / (expected * (1 - fan_out / d)) * (d - 1) / d
    freedom = int((degree[tested] - 1).sum())
    return {
        "fan_out": fan_out,
        "num_targets": int(tested.sum()),
        "num_draws": int(per_target[tested].sum()),
        "chi_square": float(squares.sum()),
        "degrees_of_freedom": freedom,
        "p_value": float(chi2.sf(squares.sum(), freedom)) if freedom else float("nan"),
    }


def _cpu_equals_gpu(graph: Csc, num_batches: int) -> dict:
    """Whether both make the same batches, edge for edge; without a GPU its kernels are interpreted."""
    has_cuda = torch.cuda.is_available()
    if not has_cuda:
        os.environ["TRITON_INTERPRET"] = "1"  # before the kernels are made
    try:
        from gnnplan.runtime.sampling.device import DeviceSource
    except ImportError:
        return {"cpu_equals_gpu": None, "cpu_equals_gpu_on": "nothing: Triton is not installed"}
    gpu = DeviceSource(graph, torch.device("cuda" if has_cuda else "cpu"))
    cpu, rng, equal = NeighbourSampler(graph), np.random.default_rng(1), True
    for batch in range(num_batches):
        seeds = rng.choice(graph.num_vertices, NUM_SEEDS, replace=False)
        keys = [hop_key(0, 0, batch, hop) for hop in range(len(FAN_OUTS))]
        ours, theirs = cpu.sample(seeds, FAN_OUTS, keys), gpu.sample(torch.from_numpy(seeds), FAN_OUTS, keys)
        pairs = [(getattr(ours, name), getattr(theirs, name).cpu()) for name in ("n_id", "edge_index", "e_id")]
        equal &= all(torch.equal(one, other) for one, other in pairs)
        equal &= (ours.num_nodes, ours.num_edges) == (theirs.num_nodes, theirs.num_edges)
    where = torch.cuda.get_device_name() if has_cuda else "Triton's interpreter"
    return {"cpu_equals_gpu": equal, "cpu_equals_gpu_on": where, "cpu_equals_gpu_batches": num_batches}


def _show(rows: list[dict]) -> None:
    table = Table(title="draws of each edge against uniform")
    for column in ("hop", "fan-out", "targets", "draws", "chi-square", "degrees of freedom", "p"):
        table.add_column(column, justify="right")
    for row in rows:
        table.add_row(
            str(row["hop"]),
            str(row["fan_out"]),
            f"{row['num_targets']:,}",
            f"{row['num_draws']:,}",
            f"{row['chi_square']:.0f}",
            f"{row['degrees_of_freedom']:,}",
            f"{row['p_value']:.3f}",
        )
    Console().print(table)
