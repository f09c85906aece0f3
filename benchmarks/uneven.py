"""Uneven devices: an epoch by METIS with equal parts against plans that follow the devices, exact and approximate.

Four emulated hosts with 0.8, 0.4, 0.4 and 0.2 cores, two links of 1 Gbit/s and two of 200 Mbit/s, are profiled
where they run. Every row (graph and model) is planned in each variant with the same partitioner and the same
orders of operators, so that a gain is the variant's own, and run in rounds, variant after variant: each axis alone,
all exact ones, all but one, and all. All rows of other workers are received: replicas would leave nothing to the other
axes. `removed` has what each axis is worth within all: all against all but it. The exact speed-up stands beside that
with all hosts at work, `exact_speedup_all_busy`. The cache of features has an axis of its own on two rows: it keeps
what only travels where features are aggregated anew in every epoch, which no other variant does, so it is compared with
equal parts under that order and counts in no mean.

A gain is `undecided`, neither of the right sign nor of the wrong one, where both plans are predicted alike, or where
the range of measured ratios, widened by their noise, has 1 in it (`_uneven_results.py`); `sign_counts` has how many are
which, and `gains_of_the_right_sign` says that none is wrong. Bytes are compared worker by worker, in every round.

A row is written to `benchmarks/results/uneven.json` when its rounds are done, and again with the accuracies of every
seed, those after 200 epochs on the same hosts without limits, which change no number: by the plans that were timed, or
where another session timed them by plans made anew (`accuracy_of_timed_plans`). A gap is the mean over the seeds that
were trained so far, for a single one says little: on fb100_cornell5 the exact accuracy itself moves by up to seven
points from one epoch to the next at the end. What is there under the same settings is not
run again, so that later sessions, also on other machines, go on with `missing_rows`. Figures of a row are ratios within
one session's profile; each row has its date, machine and pace, the processor seconds of fixed work beside its runs. In
a session finished runs are kept under `out/` too. A run with processor time stolen from this machine is repeated up to
three times, and the least disturbed kept. Hosts have all processor time until the first epoch has ended, which is not
timed, and after the last: importing torch would take longer than what is measured.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

from rich.console import Console
from rich.table import Table

from benchmarks._common import OUT, why_absent
from benchmarks._emulated import MAX_TRIES, inside, without_limits
from benchmarks._uneven_results import (
    is_complete,
    keep_results,
    kept_results,
    missing_seeds,
    row_result,
    summary,
    widest_gap_first,
    with_accuracy,
)
from benchmarks._uneven_runs import time_row, train_row
from benchmarks._uneven_settings import ACCURACY_EPOCHS, NUM_ROUNDS, SEEDS, Row, rows_of, uneven_cluster
from gnnplan.planner import api
from gnnplan.planner.cluster import Cluster


def main(quick: bool) -> dict:
    """Times the rows that are not yet timed, then trains those that are not yet trained; the quick form keeps none."""
    rows = rows_of(quick)
    results, seeds = ({}, SEEDS[:1]) if quick else (kept_results(rows), SEEDS)
    missing = [row for row in rows if not is_complete(results.get(row.name), seeds)]
    skipped = [reason for row in missing if (reason := why_absent(row.name, row.graph))]

    def keep(name: str, result: dict) -> None:
        results[name] = result
        if not quick:
            keep_results(rows, results, skipped)

    if here := [row for row in missing if not why_absent(row.name, row.graph)]:
        _measure(here, results, keep, quick, seeds)
    _show([results[row.name] for row in rows if row.name in results])
    return summary(rows, results, skipped, seeds)


def _measure(
    rows: Sequence[Row],
    results: dict[str, dict],
    keep: Callable[[str, dict], None],
    quick: bool,
    seeds: Sequence[int],
) -> None:
    """All rounds come first: accuracies take long, and need hosts without limits."""
    folder = OUT / ("uneven_quick" if quick else "uneven")
    num_rounds, tries, epochs = (1, 1, 3) if quick else (NUM_ROUNDS, MAX_TRIES, ACCURACY_EPOCHS)
    cluster = uneven_cluster()
    with inside(cluster) as emulation:
        profiled = _profiled(cluster, folder, quick)
        for row in rows:
            if row.name not in results:
                keep(row.name, row_result(row, time_row(row, profiled, folder, num_rounds, emulation, tries)))
    with inside(without_limits(cluster)):
        for row in widest_gap_first(rows, results):
            for seed in missing_seeds(results[row.name], seeds):
                keep(row.name, with_accuracy(results[row.name], seed, train_row(row, profiled, folder, epochs, seed)))


def _profiled(cluster: Cluster, folder: Path, quick: bool) -> Cluster:
    """The cluster by its hosts' own profiles, taken once a session."""
    path = folder / "profile" / "cluster.json"
    if not path.exists():
        print("profiling every host where it runs", flush=True)
        api.profile_cluster(cluster, path.parent, quick=quick)
    return Cluster.load(path)


def _show(results: Sequence[dict]) -> None:
    table = Table(title="median epoch on uneven hosts, against METIS with equal parts")
    for column in ("row", "variant", "epoch", "predicted", "speed-up", "predicted speed-up", "sign"):
        table.add_column(column, justify="left" if column in ("row", "variant", "sign") else "right")
    for result in results:
        for variant in result["variants"]:
            epochs = (f"{variant['epoch_s']:.2f} s", f"{variant['predicted_epoch_s']:.2f} s")
            table.add_row(result["row"], variant["variant"], *epochs, *_shown(variant))
        for gain in result["removed"]:
            table.add_row(result["row"], f"{gain['axis']} within all", "", "", *_shown(gain))
    Console().print(table)


def _shown(gain: dict) -> tuple[str, str, str]:
    return f"{gain['speedup']:.2f}x", f"{gain['predicted_speedup']:.2f}x", gain["sign"] or ""
