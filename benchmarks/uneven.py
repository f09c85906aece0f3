"""Uneven devices: an epoch by METIS with equal parts against plans that follow the devices, exact and approximate.

Four emulated hosts with 0.8, 0.4, 0.4 and 0.2 cores, two links of 1 Gbit/s and two of 200 Mbit/s, are profiled
where they run. Every row (graph and model) is planned in each variant with the same partitioner and the same
orders of operators, so that a gain is the variant's own, and run in rounds, variant after variant: each axis alone,
all exact ones, all but one, and all. The planner may leave slow hosts a vertex each (`balance` "concentrated"), so the
exact speed-up stands beside that with all hosts at work, `exact_speedup_all_busy`. Finished runs
are kept under `out/`, so an interrupted benchmark goes on where it stopped. Accuracies are those after 200 epochs
on the same hosts without limits, which change no number.
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
from benchmarks._emulated_runs import inside, without_limits
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
_INTERVAL = 4  # r; epochs are timed in groups of as many, one of which refreshes
_WARM_UP = 2  # epochs, which are not timed
_MIN_GROUPS, _MAX_GROUPS = 1, 3
_ACCURACY_EPOCHS = 200
BASE = "equal parts"
_OFF = {"overlap": False}
EXACT: dict[str, dict] = {
    BASE: {"balance": "equal", **_OFF},
    "overlap alone": {"balance": "equal", "overlap": True},
    "by speed": {"balance": "speed", **_OFF},
    "refined": {"balance": "refined", **_OFF},
    "refined, overlap": {"balance": "refined", "overlap": True},
    "all exact": {},
}
_STALE = {"refresh_interval": _INTERVAL}
APPROXIMATE: dict[str, dict] = {
    "pruned alone": {"balance": "equal", "prune": "rapa", **_OFF},
    "r = 4 alone": {"balance": "equal", **_OFF, **_STALE},
    "all but pruning": {**_STALE},
    "all but r = 4": {"prune": "rapa"},
    "all but shares": {"balance": "equal", "prune": "rapa", **_STALE},
    "all but overlap": {"prune": "rapa", **_OFF, **_STALE},
    "all": {"prune": "rapa", **_STALE},
}
ALL_EXACT, ALL_BUSY, ALL = "all exact", "refined, overlap", "all"


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
    with inside(without_limits(cluster)):
        accuracies = {row.name: _accuracies(row, folder, 3 if quick else _ACCURACY_EPOCHS) for row in rows}
    results = [_result(row, folder, 1 if quick else _NUM_ROUNDS, accuracies[row.name]) for row in rows]
    _show(results)
    return {
        "exact_speedup": _geometric_mean([result["exact_speedup"] for result in results]),
        "exact_speedup_all_busy": _geometric_mean([result["exact_speedup_all_busy"] for result in results]),
        "approximate_speedup": _geometric_mean([result["approximate_speedup"] for result in results]),
        "worst_accuracy_gap_pct": max(result["accuracy_gap_pct"] for result in results),
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
                        training=TrainingSpec(epochs=_WARM_UP + _INTERVAL),
                        fidelity="approximate" if variant in APPROXIMATE else "exact",
                        pin=PinnedDecisions(partitioner="metis", op_order="multiply_first", **pins),
                    )
                    for variant, pins in (EXACT | APPROXIMATE).items()
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


def _accuracies(row: Row, folder: Path, epochs: int) -> dict[str, float]:
    """Test accuracy of the base and of all approximations together, from the plans that were timed."""
    found = {}
    for variant in (BASE, ALL):
        at = _folder(folder, row, variant)
        kept = at / f"accuracy_{epochs}.json"
        if not kept.exists():
            plan = Plan.load(at / "plan.json")
            training = plan.job.training.model_copy(update={"epochs": epochs})
            longer = plan.model_copy(update={"job": plan.job.model_copy(update={"training": training})})
            longer.save(at / "longer.json")
            api.run(at / "longer.json", at / "longer", timeout_s=600.0).save(kept)
            print(f"{row.name} {variant}: trained for {epochs} epochs", flush=True)
        found[variant] = Trace.load(kept).accuracy["test"]
    return found


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
    num_groups = int(min(max(_RUN_S / slowest_s / _INTERVAL, _MIN_GROUPS), _MAX_GROUPS))
    epochs = _WARM_UP + num_groups * _INTERVAL
    for variant, job in row.jobs.items():
        training = job.training.model_copy(update={"epochs": epochs})
        api.plan(job.model_copy(update={"training": training}), cluster, paths[variant], graph=graph)


def _run(at: Path, number: int) -> None:
    kept = at / f"measured_{number}.json"
    if kept.exists():
        return
    measured = api.run(at / "plan.json", at / "run", timeout_s=600.0)
    measured.save(kept)
    print(f"{at.parent.name} {at.name}, round {number}: {_epoch_s(measured):.2f} s", flush=True)


def _epoch_s(trace: Trace) -> float:
    """Median over groups of `_INTERVAL` epochs of the group's mean: a refreshing epoch counts as often as it comes."""
    return float(np.median(np.reshape(trace.epoch_s, (-1, _INTERVAL)).mean(1)))


def _result(row: Row, folder: Path, num_rounds: int, accuracies: dict[str, float]) -> dict:
    seconds: dict[str, list[float]] = {}
    plans: dict[str, Plan] = {}
    sent: dict[str, tuple[list[int], list[int]]] = {}
    for variant in row.jobs:
        at = _folder(folder, row, variant)
        plans[variant] = Plan.load(at / "plan.json")
        traces = [Trace.load(at / f"measured_{number}.json") for number in range(num_rounds)]
        seconds[variant] = [_epoch_s(trace) for trace in traces]
        sent[variant] = _sent_bytes(traces[0], plans[variant])
    variants = [_variant(name, seconds, plans, sent[name]) for name in row.jobs]
    return {
        "row": row.name,
        "epochs": plans[BASE].job.training.epochs,
        "exact_speedup": next(v["speedup"] for v in variants if v["variant"] == ALL_EXACT),
        "exact_speedup_all_busy": next(v["speedup"] for v in variants if v["variant"] == ALL_BUSY),
        "approximate_speedup": next(v["speedup"] for v in variants if v["variant"] == ALL),
        "accuracy": accuracies,
        "accuracy_gap_pct": 100 * (accuracies[BASE] - accuracies[ALL]),
        "variants": variants,
    }


def _sent_bytes(trace: Trace, plan: Plan) -> tuple[list[int], list[int]]:
    """Of all workers in a refreshing and in a reusing epoch: counted, and predicted."""
    loads = plan.prediction.workers
    predicted = [sum(load.sent_bytes for load in loads), sum(load.reuse_sent_bytes for load in loads)]
    counted = [sum(trace.sent_bytes), sum(trace.reuse_sent_bytes)]
    return (counted, predicted) if plan.decision.cache.is_stale else (counted[:1], predicted[:1])


def _geometric_mean(values: list[float]) -> float:
    return math.exp(float(np.mean(np.log(values))))


def _variant(
    name: str, seconds: dict[str, list[float]], plans: dict[str, Plan], sent: tuple[list[int], list[int]]
) -> dict:
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
        "fidelity": plans[name].fidelity,
        "edges_pruned": sum(pruned.num_edges for pruned in plans[name].pruned),
        "shares": plans[name].decision.target_weights,
        "balance": plans[name].decision.balance,
        "overlap": plans[name].decision.overlap,
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
