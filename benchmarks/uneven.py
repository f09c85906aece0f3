"""Uneven devices: an epoch by METIS with equal parts against plans that follow the devices, exact and approximate.

Four emulated hosts with 0.8, 0.4, 0.4 and 0.2 cores, two links of 1 Gbit/s and two of 200 Mbit/s, are profiled
where they run. Every row (graph and model) is planned in each variant with the same partitioner and the same
orders of operators, so that a gain is the variant's own, and run in rounds, variant after variant: each axis alone,
all exact ones, all but one, and all. The planner may leave slow hosts a vertex each (`balance` "concentrated"), so the
exact speed-up stands beside that with all hosts at work, `exact_speedup_all_busy`. The cache of features has an axis of
its own on two rows: it keeps what only travels where features are aggregated anew in every epoch, which no other
variant does, so it is compared with equal parts under that order and counts in no mean. Finished runs
are kept under `out/`, so an interrupted benchmark goes on where it stopped; one with processor time stolen from this
machine is repeated up to three times, and the least disturbed kept. Hosts have all processor time until the
first epoch has ended, which is not timed, and after the last: importing torch would take longer than what is measured.
Accuracies are those after 200 epochs on the same hosts without limits, which change no number.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from rich.console import Console
from rich.table import Table

from benchmarks._common import OUT
from benchmarks._emulated_runs import MAX_TRIES, inside, loaded, started_fast, undisturbed, without_limits
from benchmarks._uneven_settings import (
    ALL,
    ALL_BUSY,
    ALL_EXACT,
    APPROXIMATE,
    BASE,
    EXACT,
    FEATURE_BASE,
    INTERVAL,
    WARM_UP,
    Row,
    rows_of,
    uneven_cluster,
)
from planner import api
from planner.cluster import Cluster
from planner.emulation.emulate import EmulatedHost
from planner.plan import Plan
from planner.trace import Trace

_NUM_ROUNDS = 2
_RUN_S = 20.0  # of training in a run
_MIN_GROUPS, _MAX_GROUPS = 1, 3
_ACCURACY_EPOCHS = 200


def main(quick: bool) -> dict:
    """Profiles the cluster once, then plans and runs what is not yet run."""
    folder = OUT / ("uneven_quick" if quick else "uneven")
    skipped: list[str] = []
    rows = list(rows_of(quick, skipped))
    cluster = uneven_cluster()
    with inside(cluster) as (identity, hosts):
        profiled = folder / "profile" / "cluster.json"
        if not profiled.exists():
            print("profiling every host where it runs", flush=True)
            api.profile_cluster(cluster, profiled.parent, quick=quick)
        for row in rows:
            _plan(row, Cluster.load(profiled), folder)
            for number in range(1 if quick else _NUM_ROUNDS):
                for variant in row.jobs:
                    _run(_folder(folder, row, variant), number, identity, hosts, 1 if quick else MAX_TRIES)
    with inside(without_limits(cluster)):
        accuracies = {row.name: _accuracies(row, folder, 3 if quick else _ACCURACY_EPOCHS) for row in rows}
    results = [_result(row, folder, 1 if quick else _NUM_ROUNDS, accuracies[row.name]) for row in rows]
    _show(results)
    return {
        "exact_speedup": _geometric_mean([result["exact_speedup"] for result in results]),
        "exact_speedup_all_busy": _geometric_mean([result["exact_speedup_all_busy"] for result in results]),
        "approximate_speedup": _geometric_mean([result["approximate_speedup"] for result in results]),
        "worst_accuracy_gap_pct": max(result["accuracy_gap_pct"] for result in results),
        "worst_gain_error": max(
            abs(v["gain_error"]) for r in results for v in r["variants"] if v["variant"] not in (BASE, FEATURE_BASE)
        ),
        "all_bytes_as_predicted": all(v["sent_as_predicted"] for r in results for v in r["variants"]),
        "gains_of_the_right_sign": all(v["right_sign"] for r in results for v in r["variants"]),
        "wrong_signs": [
            {"row": r["row"], **{key: v[key] for key in ("variant", "predicted_speedup", "speedup_range")}}
            for r in results
            for v in r["variants"]
            if not v["right_sign"]
        ],
        "skipped": skipped,
        "rows": results,
    }


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
            graph = loaded(plan.job.graph)
            api.run(at / "longer.json", at / "longer", graph=graph, timeout_s=600.0).save(kept)
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
    graph = loaded(next(iter(row.jobs.values())).graph)
    first = {
        v: api.plan(job, cluster, paths[v].parent / "first" / "plan.json", graph=graph) for v, job in row.jobs.items()
    }
    for _, variants in row.comparisons:
        if len({(first[v].decision.layers, first[v].decision.sparse_features) for v in variants}) > 1:
            raise AssertionError(f"{row.name}: variants differ in operators' order or format, which is not theirs")
    slowest_s = max(first[variant].prediction.epoch_s for variant in EXACT | APPROXIMATE)
    num_groups = int(min(max(_RUN_S / slowest_s / INTERVAL, _MIN_GROUPS), _MAX_GROUPS))
    epochs = WARM_UP + num_groups * INTERVAL
    for variant, job in row.jobs.items():
        training = job.training.model_copy(update={"epochs": epochs})
        api.plan(job.model_copy(update={"training": training}), cluster, paths[variant], graph=graph)


def _run(at: Path, number: int, identity: str, hosts: Sequence[EmulatedHost], tries: int) -> None:
    kept = at / f"measured_{number}.json"
    if kept.exists():
        return

    def run() -> Trace:
        with started_fast(identity, hosts) as on_event:
            path = at / "plan.json"
            graph = loaded(Plan.load(path).job.graph)
            return api.run(path, at / "run", graph=graph, timeout_s=600.0, on_event=on_event)

    measured = undisturbed(run, tries)
    measured.save(kept)
    stolen = f"stolen {measured.stolen_share:.1%}"
    print(f"{at.parent.name} {at.name}, round {number}: {_epoch_s(measured):.2f} s ({stolen})", flush=True)


def _epoch_s(trace: Trace) -> float:
    """Median over groups of `INTERVAL` epochs of the group's mean: a refreshing epoch counts as often as it comes."""
    return float(np.median(np.reshape(trace.epoch_s, (-1, INTERVAL)).mean(1)))


def _result(row: Row, folder: Path, num_rounds: int, accuracies: dict[str, float]) -> dict:
    folders = {variant: _folder(folder, row, variant) for variant in row.jobs}
    plans = {variant: Plan.load(at / "plan.json") for variant, at in folders.items()}
    traces = {
        variant: [Trace.load(at / f"measured_{number}.json") for number in range(num_rounds)]
        for variant, at in folders.items()
    }
    variants = [_variant(name, base, traces, plans) for base, names in row.comparisons for name in names]
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


def _variant(name: str, base: str, traces: dict[str, list[Trace]], plans: dict[str, Plan]) -> dict:
    """Speed-ups over the base, predicted and measured: the median of the rounds' ratios, and their range."""
    seconds = [_epoch_s(trace) for trace in traces[name]]
    ratios = [_epoch_s(theirs) / ours for theirs, ours in zip(traces[base], seconds)]
    sent, expected = _sent_bytes(traces[name][0], plans[name])
    predicted = plans[base].prediction.epoch_s / plans[name].prediction.epoch_s
    measured = float(np.median(ratios))
    return {
        "variant": name,
        "epoch_s": float(np.median(seconds)),
        "predicted_epoch_s": plans[name].prediction.epoch_s,
        "speedup": measured,
        "speedup_range": [min(ratios), max(ratios)],
        "predicted_speedup": predicted,
        "gain_error": predicted / measured - 1,
        "right_sign": name == base or (predicted > 1) == (measured > 1),
        "fidelity": plans[name].fidelity,
        "edges_pruned": sum(pruned.num_edges for pruned in plans[name].pruned),
        "shares": plans[name].decision.target_weights,
        "balance": plans[name].decision.balance,
        "overlap": plans[name].decision.overlap,
        "stolen_share": max(trace.stolen_share for trace in traces[name]),
        "sent_bytes": sent,
        "sent_as_predicted": sent == expected,
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
