"""A training in a quarter of the memory that it takes otherwise: rows on disk, the worker held to that limit.

One GCN on a graph of communities is trained twice, by one worker. First everything lies in memory, which gives
`in_memory_bytes`, the peak. Then rows lie on disk (`offload`), and the worker and its host's agent have a quarter of
that together, `limit_bytes`, with every page of a file among it: the kernel ends who takes more. `loss_rel` is the
largest relative difference between the losses of both. `memory_error` is the error of the second's predicted peak, of
what is no page of a file with rows; `in_memory_error` is that of the first's.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from contextlib import nullcontext
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np

from benchmarks._common import OUT, ROOT, this_machine
from benchmarks._limited_memory import limited
from gnnplan.planner import api
from gnnplan.planner.cluster import Cluster
from gnnplan.planner.graph import Graph
from gnnplan.planner.graph_spec import NpzGraph
from gnnplan.planner.job import Job
from gnnplan.planner.job_pins import PinnedDecisions
from gnnplan.planner.loaders import load_graph
from gnnplan.planner.model_spec import ModelSpec
from gnnplan.planner.plan import Plan
from gnnplan.planner.run import prepare_run
from gnnplan.planner.run_files import MEASURED_FILE
from gnnplan.planner.trace import Trace
from gnnplan.planner.training_spec import TrainingSpec
from gnnplan.profiles.errors import RunFailedError

_SHARE = 4  # of the memory, that the second training has
_NUM_FEATURES, _NUM_CLASSES, _DEGREE, _WITHIN = 256, 8, 10, 0.9
_RUN_S = 1500.0


def main(quick: bool) -> dict:
    """Both trainings; the quick form limits nothing, for on a small graph most memory is the process's own."""
    num_communities, num_chunks = (4, 8) if quick else (60, 40)
    with TemporaryDirectory(prefix="gnnplan-offload-", dir=OUT) as name:
        folder = Path(name)
        spec = community_graph(folder / "graph.npz", num_communities, 2_000 if quick else 10_000)
        graph, cluster = load_graph(spec), this_machine(1, quick=True, folder=OUT)
        whole, plan_of_whole = _trained(_job(spec, None), graph, cluster, folder / "whole")
        limit_bytes = None if quick else whole.peak_bytes[0] // _SHARE
        small = with_memory(cluster, limit_bytes) if limit_bytes else cluster
        outside, plan = _trained(_job(spec, num_chunks), graph, small, folder / "outside", limit_bytes)
    predicted_bytes, whole_bytes = (each.prediction.workers[0].peak_bytes for each in (plan, plan_of_whole))
    losses = zip(outside.losses, whole.losses, strict=True)
    return {
        "vertices": graph.num_nodes,
        "edges": graph.num_edges,
        "chunks": num_chunks,
        "in_memory_bytes": whole.peak_bytes[0],
        "in_memory_error": whole_bytes / whole.peak_bytes[0] - 1,
        "limit_bytes": limit_bytes,
        "share": whole.peak_bytes[0] / (limit_bytes or outside.peak_bytes[0]),
        "peak_bytes": outside.peak_bytes[0],
        "memory_error": predicted_bytes / outside.peak_bytes[0] - 1,
        "loss_rel": max(abs(one - other) / abs(other) for one, other in losses),
        "epoch_over_in_memory": outside.median_epoch_s / whole.median_epoch_s,
        "predicted_epoch_s": plan.prediction.epoch_s,
        "measured_epoch_s": outside.median_epoch_s,
    }


def with_memory(cluster: Cluster, num_bytes: int) -> Cluster:
    """A cluster of one device, as one that has so much memory."""
    (host,) = cluster.hosts
    (device,) = host.devices
    devices = (device.model_copy(update={"memory_bytes": num_bytes}),)
    return cluster.model_copy(update={"hosts": (host.model_copy(update={"devices": devices}),)})


def community_graph(path: Path, num_communities: int, size: int) -> NpzGraph:
    """Communities of equal size, and nine in ten edges within them."""
    rng, count = np.random.default_rng(0), num_communities * size
    source = rng.integers(0, count, count * _DEGREE // 2)
    near = source // size * size + rng.integers(0, size, len(source))
    target = np.where(rng.random(len(source)) < _WITHIN, near, rng.integers(0, count, len(source)))
    both = np.concatenate([np.stack([source, target]), np.stack([target, source])], axis=1)
    y = np.arange(count) // size % _NUM_CLASSES
    x = rng.normal(size=(count, _NUM_FEATURES)).astype(np.float32)
    x[np.arange(count), y] += 2
    np.savez(path, edge_index=both[:, both[0] != both[1]], x=x, y=y, num_nodes=np.array(count))
    return NpzGraph(source="npz", path=path)


def _job(spec: NpzGraph, num_chunks: int | None) -> Job:
    """In memory, or in chunks whose rows lie on disk."""
    asked = num_chunks is not None
    pin = PinnedDecisions(
        num_workers=1,
        precompute=False,
        techniques={"offload": asked, "destination_chunks": asked},
        decisions={"destination_chunks": {"num_chunks": num_chunks}} if asked else {},
    )
    model = ModelSpec(kind="gcn", num_layers=3, hidden_channels=128)
    return Job(schema_version=1, name="offload", graph=spec, model=model, training=TrainingSpec(epochs=4), pin=pin)


def _trained(
    job: Job, graph: Graph, cluster: Cluster, folder: Path, limit_bytes: int | None = None
) -> tuple[Trace, Plan]:
    """By one worker, whose host's script is started here, so that the limit is its own."""
    plan = api.plan(job, cluster, folder / "made.json", graph=graph)
    (script,) = prepare_run(folder / "made.json", folder / "run", graph=graph).values()
    with limited(limit_bytes) if limit_bytes else nullcontext(lambda: None) as join:
        _start(script, join)
    return Trace.load(folder / "run" / MEASURED_FILE), plan


def _start(script: Path, join: Callable[[], None]) -> None:
    where = {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": "29519", "GLOO_SOCKET_IFNAME": "lo"}
    ran = subprocess.run(
        ["sh", str(script), "--timeout-s=60", "--evaluations=0", "--checkpoint-every=never", "--keep=2"],
        env={**os.environ, **where, "PYTHON": sys.executable, "PYTHONPATH": str(ROOT)},
        preexec_fn=join,
        capture_output=True,
        text=True,
        timeout=_RUN_S,
        check=False,
    )
    if ran.returncode:
        raise RunFailedError(f"the worker ended with {ran.returncode}: {json.dumps(ran.stderr[-800:])}")
