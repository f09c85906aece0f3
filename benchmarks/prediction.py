"""Predicted against measured epochs on emulated clusters, before and after calibration; ranking; memory.

Every cluster is profiled once where its hosts run, before any run. Each half of its settings (every
other one) then calibrates the profile for the other half: what is reported as "after" is never of a
run that calibrated. The halves are of different plans (unpinned and aggregate first; multiply first),
so each is also reported alone. Plans that the planner would choose are easily the best of a group, so
the ranking is reported without them too.

A cluster's rows are written to `benchmarks/results/prediction.json` when all its runs have ended. What is there under
the same settings is not run again, so later sessions, also on other machines, go on with what is `missing`; each
cluster has its date, its machine, and a digest of the code. On a machine finished runs are kept under `out/`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from rich.console import Console
from rich.table import Table

from benchmarks._common import OUT, why_absent
from benchmarks._prediction_results import cluster_result, summary
from benchmarks._prediction_runs import run_cluster
from benchmarks._prediction_settings import Group, clusters, fingerprint, groups_of
from benchmarks._results import keep, kept_parts, record_of
from gnnplan.profiles.errors import UserError

_FILE = "prediction"


def main(quick: bool) -> dict:
    """Runs the clusters that have not run; the quick form runs one group of the first and keeps nothing."""
    chosen = {name: groups_of(name) for name in clusters()}
    if quick:
        first, *_ = chosen
        chosen = {first: chosen[first][:1]}
    settings = {name: fingerprint(name, groups) for name, groups in chosen.items()}
    results = {} if quick else kept_parts(_FILE, "clusters", "cluster", settings)
    missing = {name: _why_not(name, groups) for name, groups in chosen.items() if name not in results}
    skipped = [reason for reason in missing.values() if reason]
    if len(skipped) == len(chosen):
        raise UserError(skipped[0])
    for name, reason in list(missing.items()):
        if not reason:
            kind = "prediction_quick" if quick else "prediction"
            folder = OUT / kind / f"{name.replace(' ', '_')}-{settings[name]}"
            runs = run_cluster(clusters()[name], chosen[name], folder, quick=quick)
            results[name] = cluster_result(name, chosen[name], runs)
            del missing[name]
            if not quick:
                keep(_FILE, record_of(_FILE, summary(_in_order(results), list(missing), skipped)))
    _show(_in_order(results))
    return summary(_in_order(results), list(missing), skipped)


def _why_not(cluster: str, groups: Sequence[Group]) -> str | None:
    """Why a cluster's groups cannot run here."""
    reasons = (why_absent(cluster, group.jobs[0].graph) for group in groups)
    return next(filter(None, reasons), None)


def _in_order(results: Mapping[str, dict]) -> list[dict]:
    return [results[name] for name in clusters() if name in results]


def _show(results: Sequence[dict]) -> None:
    table = Table(title="predicted against measured median epoch on emulated clusters")
    for column in ("setting", "measured", "spread", "error before", "after", "memory, worst"):
        table.add_column(column, justify="left" if column == "setting" else "right")
    for cluster, row in ((result["cluster"], row) for result in results for row in result["rows"]):
        table.add_row(
            f"{cluster}: {row['group']}, {row['plan']}",
            f"{row['measured_s'] * 1e3:.0f} ms",
            f"{row['spread']:.1%}",
            f"{row['error_before']:+.1%}",
            f"{row['error_after']:+.1%}",
            f"{max(row['memory_errors'], key=abs):+.1%}",
        )
    Console().print(table)
