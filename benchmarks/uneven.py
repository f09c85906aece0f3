"""Uneven devices: an epoch by METIS with equal parts against shares of the graph that follow the devices.

Four emulated hosts with 0.8, 0.4, 0.4 and 0.2 cores, two links of 1 Gbit/s and two of 200 Mbit/s, are profiled
where they run. Every row (graph and model) is planned in each variant with the same partitioner and the same
orders of operators, so that a gain is the variant's own, and run in rounds, variant after variant. Finished runs
are kept under `out/`, so an interrupted benchmark goes on where it stopped.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from pydantic import PositiveFloat
from rich.console import Console
from rich.table import Table

from benchmarks._common import OUT, dataset
from benchmarks._emulated_runs import inside
from planner import api
from planner.cluster import Cluster, DeviceSpec, HostSpec
from planner.job import Job, ModelSpec, NpzGraph, PinnedDecisions, SbmGraph, TrainingSpec
from planner.loaders import load_graph
from planner.plan import Plan
from planner.trace import Trace
from profiles.errors import UserError
from profiles.machine import Link

_MBIT = 125e3  # bytes a second
_HOSTS = ((0.8, 1000), (0.4, 1000), (0.4, 200), (0.2, 200))  # cores, Mbit/s
_HIDDEN, _NUM_LAYERS = 256, 3
_NUM_ROUNDS = 2
_RUN_S = 20.0  # of training in a run
_MIN_EPOCHS, _MAX_EPOCHS = 4, 12
BASE = "equal parts"
_BALANCE = {BASE: "equal", "by speed": "speed", "refined": "refined"}


@dataclass(frozen=True)
class Row:
    """A graph and a model, in every variant."""

    name: str
    jobs: dict[str, Job]


def main(quick: bool) -> dict:
    """Profiles the cluster once, then plans and runs what is not yet run."""
    folder = OUT / ("uneven_quick" if quick else "uneven")
    skipped: list[str] = []
    rows = list(_rows(quick, skipped))
    cluster = _cluster()
    with inside(cluster):
        profiled = folder / "profile" / "cluster.json"
        if not profiled.exists():
            print("profiling every host where it runs", flush=True)
            api.profile_cluster(cluster, profiled.parent, quick=quick)
        for row in rows:
            _plan(row, Cluster.load(profiled), folder)
            for number in range(1 if quick else _NUM_ROUNDS):
                for variant in row.jobs:
                    _run(_folder(folder, row, variant), number)
    results = [_result(row, folder, 1 if quick else _NUM_ROUNDS) for row in rows]
    _show(results)
    return {
        "exact_speedup": math.exp(float(np.mean([math.log(result["best_exact_speedup"]) for result in results]))),
        "worst_gain_error": max(abs(v["gain_error"]) for r in results for v in r["variants"] if v["variant"] != BASE),
        "gains_of_the_right_sign": all(v["right_sign"] for r in results for v in r["variants"]),
        "skipped": skipped,
        "rows": results,
    }


def _rows(quick: bool, skipped: list[str]) -> Iterator[Row]:
    for kind in ("gcn",) if quick else ("gcn", "sage"):
        for name in ("small",) if quick else ("coauthor_physics", "fb100_cornell5", "reddit-shaped"):
            try:
                graph = _graph(name)
            except UserError as error:
                skipped.append(f"{name}: {error}")
                continue
            model = ModelSpec(kind=kind, num_layers=_NUM_LAYERS, hidden_channels=16 if quick else _HIDDEN)
            yield Row(
                f"{kind} {name}",
                {
                    variant: Job(
                        schema_version=1,
                        name=variant,
                        graph=graph,
                        model=model,
                        training=TrainingSpec(epochs=_MIN_EPOCHS),
                        pin=PinnedDecisions(partitioner="metis", op_order="multiply_first", balance=balance),
                    )
                    for variant, balance in _BALANCE.items()
                },
            )


def _graph(name: str) -> NpzGraph | SbmGraph:
    if name == "small":
        return SbmGraph(source="sbm", num_nodes=2000, average_degree=10, num_features=16, num_classes=4)
    if name == "reddit-shaped":  # a third of Reddit's vertices with its features and classes, and its homophily
        return SbmGraph(
            source="sbm", num_nodes=60_000, average_degree=100, num_features=602, num_classes=41, homophily=0.78
        )
    return NpzGraph(source="npz", path=dataset(name))


def _cluster() -> Cluster:
    return Cluster(
        schema_version=1,
        name="uneven",
        hosts=tuple(
            HostSpec(
                name=f"h{index}",
                devices=(DeviceSpec(catalog="t4"),),  # stands in until the hosts are profiled
                cpu_cores=PositiveFloat(cores),
                link=Link(bytes_per_s=PositiveFloat(rate * _MBIT)),
            )
            for index, (cores, rate) in enumerate(_HOSTS)
        ),
    )


def _folder(folder: Path, row: Row, variant: str) -> Path:
    return folder / row.name.replace(" ", "_") / variant.replace(" ", "_")


def _plan(row: Row, cluster: Cluster, folder: Path) -> None:
    """Plans of all variants, for as many epochs as the slowest needs to fill a run."""
    paths = {variant: _folder(folder, row, variant) / "plan.json" for variant in row.jobs}
    if all(path.exists() for path in paths.values()):
        return
    graph = load_graph(next(iter(row.jobs.values())).graph)
    first = {
        v: api.plan(job, cluster, paths[v].parent / "first" / "plan.json", graph=graph) for v, job in row.jobs.items()
    }
    if len({plan.decision.layers for plan in first.values()}) > 1:
        raise AssertionError(f"{row.name}: variants differ in the order of operators, which is not theirs to change")
    slowest_s = max(plan.prediction.epoch_s for plan in first.values())
    epochs = int(min(max(_RUN_S / slowest_s, _MIN_EPOCHS), _MAX_EPOCHS))
    for variant, job in row.jobs.items():
        training = job.training.model_copy(update={"epochs": epochs})
        api.plan(job.model_copy(update={"training": training}), cluster, paths[variant], graph=graph)


def _run(at: Path, number: int) -> None:
    kept = at / f"measured_{number}.json"
    if kept.exists():
        return
    measured = api.run(at / "plan.json", at / "run", timeout_s=600.0)
    measured.save(kept)
    print(f"{at.parent.name} {at.name}, round {number}: {measured.median_epoch_s:.2f} s", flush=True)


def _result(row: Row, folder: Path, num_rounds: int) -> dict:
    seconds: dict[str, list[float]] = {}
    plans: dict[str, Plan] = {}
    sent: dict[str, tuple[int, int]] = {}
    for variant in row.jobs:
        at = _folder(folder, row, variant)
        plans[variant] = Plan.load(at / "plan.json")
        traces = [Trace.load(at / f"measured_{number}.json") for number in range(num_rounds)]
        seconds[variant] = [trace.median_epoch_s for trace in traces]
        sent[variant] = sum(traces[0].sent_bytes), sum(w.sent_bytes for w in plans[variant].prediction.workers)
    variants = [_variant(name, seconds, plans, sent[name]) for name in row.jobs]
    return {
        "row": row.name,
        "epochs": plans[BASE].job.training.epochs,
        "best_exact_speedup": max(variant["speedup"] for variant in variants),
        "variants": variants,
    }


def _variant(name: str, seconds: dict[str, list[float]], plans: dict[str, Plan], sent: tuple[int, int]) -> dict:
    """Speed-ups over the base, predicted and measured: the median of the rounds' ratios, and their range."""
    ratios = [base / ours for base, ours in zip(seconds[BASE], seconds[name])]
    predicted = plans[BASE].prediction.epoch_s / plans[name].prediction.epoch_s
    measured = float(np.median(ratios))
    return {
        "variant": name,
        "epoch_s": float(np.median(seconds[name])),
        "predicted_epoch_s": plans[name].prediction.epoch_s,
        "speedup": measured,
        "speedup_range": [min(ratios), max(ratios)],
        "predicted_speedup": predicted,
        "gain_error": predicted / measured - 1,
        "right_sign": name == BASE or (predicted > 1) == (measured > 1),
        "shares": plans[name].decision.target_weights,
        "sent_bytes": sent[0],
        "sent_as_predicted": sent[0] == sent[1],
    }


def _show(results: list[dict]) -> None:
    table = Table(title="median epoch on uneven hosts, against METIS with equal parts")
    for column in ("row", "variant", "epoch", "predicted", "speed-up", "predicted speed-up"):
        table.add_column(column, justify="left" if column in ("row", "variant") else "right")
    for result in results:
        for variant in result["variants"]:
            table.add_row(
                result["row"],
                variant["variant"],
                f"{variant['epoch_s']:.2f} s",
                f"{variant['predicted_epoch_s']:.2f} s",
                f"{variant['speedup']:.2f}x",
                f"{variant['predicted_speedup']:.2f}x",
            )
    Console().print(table)
