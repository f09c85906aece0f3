"""The best composition of exact techniques against the best single one, one host, and the first edition's best.

On every emulated cluster each row's plans are run in turn, round after round, so that a slow spell of the machine hits
all alike. Ratios are taken round by round, and their median is reported. Of the single techniques the two that are
predicted to be fastest are run, and the faster one is the rival. Where the composition is the same plan as a rival, it
is run once, and their ratio is 1.

A cluster's rows are kept when all its runs have ended; what is there under the same settings is not run again.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
from rich.console import Console
from rich.table import Table

from benchmarks._common import OUT, why_absent
from benchmarks._composition_runs import BEFORE, Side, Times, sides_of, time_row
from benchmarks._composition_settings import COMPOSITION, NUM_ROUNDS, ONE_HOST, SINGLE, Row, clusters, rows_on
from benchmarks._emulated import MAX_TRIES, inside
from benchmarks._results import about, keep, kept_parts, record_of
from gnnplan.planner import api
from gnnplan.planner.cluster import Cluster

_FILE = "composition"


def main(quick: bool) -> dict:
    """Runs the clusters that have not run; the quick form runs one row of one cluster, one round, and keeps nothing."""
    chosen = {name: _present(name, quick) for name in clusters(quick)}
    settings = {name: "-".join(row.fingerprint() for row in rows) for name, rows in chosen.items()}
    results = {} if quick else kept_parts(_FILE, "clusters", "cluster", settings)
    for name, rows in chosen.items():
        if name not in results:
            found = _on(clusters(quick)[name], rows, OUT / f"composition{'_quick' if quick else ''}" / name, quick)
            results[name] = {"cluster": name, "settings": settings[name], **about(), "rows": found}
            if not quick:
                keep(_FILE, record_of(_FILE, _summary(results)))
    _show(_rows([*results.values()]))
    return _summary(results)


def _present(cluster: str, quick: bool) -> list[Row]:
    return [row for row in rows_on(cluster, quick) if not why_absent(row.name, row.graph)]


def _on(cluster: Cluster, rows: Sequence[Row], folder: Path, quick: bool) -> list[dict]:
    profiled, results = folder / "profile", []
    with inside(cluster) as emulation:
        if not (profiled / "cluster.json").exists():
            print(f"{cluster.name}: profiling every host where it runs", flush=True)
            api.profile_cluster(cluster, profiled, quick=quick)
        for row in rows:
            at = folder / f"{row.name.replace(' ', '_')}-{row.fingerprint()}"
            at.mkdir(parents=True, exist_ok=True)
            sides = sides_of(row, profiled, at)
            times = time_row(row, sides, at, 1 if quick else NUM_ROUNDS, emulation, 1 if quick else MAX_TRIES)
            results.append(_result(row, sides, times))
    return results


def _result(row: Row, sides: Sequence[Side], times: Mapping[str, Times]) -> dict:
    ours, by_name = times[COMPOSITION], {side.name: side for side in sides}
    single = min((name for name in times if name.startswith(SINGLE)), key=lambda name: np.median(times[name].epoch_s))
    before = by_name.get(BEFORE)
    return {
        "row": row.name,
        "speedup_over_single": _ratio(times[single], ours),
        "best_single": single.removeprefix(SINGLE),
        "speedup_over_one_host": _ratio(times[ONE_HOST], ours),
        "speedup_over_before": _ratio(times[BEFORE], ours) if before else None,
        "planning_over_before": by_name[COMPOSITION].planning_s / before.planning_s if before else None,
        "error": by_name[COMPOSITION].predicted_s / float(np.median(ours.epoch_s)) - 1,
        "spread": (max(ours.epoch_s) - min(ours.epoch_s)) / float(np.median(ours.epoch_s)),
        "stolen_share": max(each.stolen_share for each in times.values()),
        "sides": [
            {
                "side": side.name,
                "plan": side.words,
                "same_as": side.same_as,
                "predicted_s": side.predicted_s,
                "planning_s": side.planning_s,
                "rounds_s": times[side.name].epoch_s,
            }
            for side in sides
        ],
    }


def _ratio(rival: Times, ours: Times) -> float:
    return float(np.median(np.divide(rival.epoch_s, ours.epoch_s)))


def _rows(parts: Sequence[dict]) -> list[dict]:
    return [row for part in parts for row in part["rows"]]


def _summary(results: Mapping[str, dict]) -> dict:
    parts = list(results.values())
    rows = _rows(parts)
    before = [row["speedup_over_before"] for row in rows if row["speedup_over_before"]]
    planning = [row["planning_over_before"] for row in rows if row["planning_over_before"]]
    return {
        "speedup_over_single": _mean([row["speedup_over_single"] for row in rows]),
        "worst_over_single": min(row["speedup_over_single"] for row in rows),
        "speedup_over_one_host": _mean([row["speedup_over_one_host"] for row in rows]),
        "worst_over_one_host": min(row["speedup_over_one_host"] for row in rows),
        "speedup_over_before": _mean(before) if before else None,
        "worst_over_before": min(before, default=None),
        "planning_over_before": _mean(planning) if planning else None,
        "mean_error": float(np.mean([abs(row["error"]) for row in rows])),
        "rows": [{key: value for key, value in row.items() if key != "sides"} for row in rows],
        "clusters": parts,
    }


def _mean(ratios: Sequence[float]) -> float:
    """Geometric mean."""
    return float(np.exp(np.mean(np.log(ratios))))


def _show(rows: Sequence[dict]) -> None:
    table = Table(title="the best composition: its epoch, and how many times longer the others' are")
    for column in ("row", "epoch", "best single technique", "one host", "first edition", "planning, to first edition"):
        table.add_column(column, justify="left" if column == "row" else "right")
    for row in rows:
        ours_s = float(np.median(row["sides"][0]["rounds_s"]))
        before, planning = row["speedup_over_before"], row["planning_over_before"]
        table.add_row(
            row["row"],
            f"{ours_s * 1e3:.0f} ms",
            f"{row['speedup_over_single']:.2f} ({row['best_single']})",
            f"{row['speedup_over_one_host']:.2f}",
            f"{before:.2f}" if before else "-",
            f"{planning:.2f}" if planning else "-",
        )
    Console().print(table)
