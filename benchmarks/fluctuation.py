"""Fluctuating hosts: what an epoch takes under weather, and how much of the delay partial reduce cuts.

Four equal emulated hosts (0.45 cores, 1 Gbit/s) are profiled where they run. On them caching and communicating take
about as long. Every row (graph and model) is planned as all communicated, all cached and hybrid, all communicated with
partial reduce, hybrid with partial reduce, and that in groups of half the hosts, where the paper's are majorities;
with one partitioner, equal shares and the same order of operators. alpha and K are the planner's choice: for the
sleeps, and for what changing links and processors are on average. All meet the same weathers (NeutronCloud,
PVLDB 19(1), 2025):

- "sleep 5 s" (section 6.1): 10% of a worker's epochs take 5 s more;
- "sleep 2 epochs" (section 2.1): the same share begins five epochs that take two epochs more each, in epochs of the
  fastest static plan, as predicted in calm;
- "links and processors": spells of 10 to 25 s in which one host has 10 to 50% of its link, 25 to 50% of its processor,
  or both. They are counted from the end of the first epoch, with four calm ones before them, and epochs that end after
  the time looked at are left out: a faster variant trains more of them in the same weather.

Means and percentiles leave out the first three epochs, which all wait for, and have what was decided before an epoch in
it. The *delay* is a mean epoch under a weather less a calm one, but no less than a hundredth of that, nor than what
chance would make of it (two standard errors of the calm mean): of the variant's own, and of the best static variant's,
which is the one with the least mean epoch under that weather. A *cut* is the best static's delay over the variant's;
of the two the smaller one counts, and its geometric mean over rows and weathers is what the JSON has, with the number
of those that met the least delay. `of_sums` is all delays of the best statics, in calm epochs, over all of the
variant's: a single large cut counts little in it. Simulated epochs are of the run's own sleeps and spells.
Accuracies are means over three seeds; the gap of the worst seed stands beside the worst mean gap.

A row is written to `benchmarks/results/fluctuation.json` when all its runs have ended, and so are the accuracies of a
graph. What is there under the same settings is not run again, so later sessions, also on other machines, go on with
what is `missing`; each has its date and machine. In a session finished runs are kept under `out/` too. One with
processor time stolen from this machine is repeated up to three times, and the least disturbed kept.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
from rich.console import Console
from rich.table import Table

from benchmarks import _fluctuation_accuracy as accuracy
from benchmarks._common import OUT, why_absent
from benchmarks._emulated import inside
from benchmarks._fluctuation_results import FILE, kept_accuracies, kept_rows, row_result, summary
from benchmarks._fluctuation_runs import plan_row, profiled, run_case
from benchmarks._fluctuation_settings import FULL, QUICK, Row, Scale, row_of
from benchmarks._results import keep, record_of
from gnnplan.planner.cluster import Cluster


def main(quick: bool) -> dict:
    """Runs the rows that have not run, then trains the graphs that are not yet trained; the quick form keeps none."""
    if not quick:
        return _Results(FULL, OUT / "fluctuation", is_kept=True).complete()
    with TemporaryDirectory(prefix="gnnplan-fluctuation-") as folder:
        return _Results(QUICK, Path(folder), is_kept=False).complete()


class _Results:
    """What is known of rows and graphs; more and more of it."""

    def __init__(self, scale: Scale, folder: Path, *, is_kept: bool) -> None:
        self._scale, self._folder, self._is_kept = scale, folder, is_kept
        self._rows = [row_of(name) for name in scale.rows]
        self._graphs = [accuracy.row_of(name) for name in scale.accuracy_graphs]
        self._of_row = kept_rows(self._rows, scale) if is_kept else {}
        self._of_graph = kept_accuracies(self._graphs) if is_kept else {}

    def complete(self) -> dict:
        """Measures what is missing, as far as its graphs are here."""
        rows, graphs = _here(self._rows, self._of_row), _here(self._graphs, self._of_graph)
        if rows or graphs:
            cluster = profiled(self._scale, self._folder)
            for row in rows:
                self._of_row[row.name] = self._measured(row, cluster)
                self._keep()
            if graphs:
                self._train(graphs, cluster)
        result = self._summary()
        _show(result["rows"])
        _show_accuracies(result["accuracies"])
        return result

    def _measured(self, row: Row, cluster: Cluster) -> dict:
        left_out: list[str] = []
        cases = plan_row(row, cluster, self._folder, self._scale, left_out)
        left_s = sum(case.expected_s for case in cases if not case.measured_path.exists())
        print(f"{row.name}: {len(cases)} runs; those to come take {left_s / 60:.0f} min by their plans", flush=True)
        for case in cases:
            run_case(case, cluster, self._scale)
        return row_result(row, self._scale, cases, left_out)

    def _train(self, graphs: Sequence[Row], cluster: Cluster) -> None:
        with inside(cluster) as emulation:
            for row in graphs:
                self._of_graph[row.name] = accuracy.accuracies_of(row, cluster, self._folder, emulation)
                self._keep()

    def _keep(self) -> None:
        if self._is_kept:
            keep(FILE, record_of(FILE, self._summary()))

    def _summary(self) -> dict:
        known = [(self._rows, self._of_row), (self._graphs, self._of_graph)]
        rows, graphs = ([found[row.name] for row in wanted if row.name in found] for wanted, found in known)
        missing = [row for wanted, found in known for row in wanted if row.name not in found]
        skipped = [reason for row in missing if (reason := why_absent(row.name, row.graph))]
        return summary(rows, graphs, [row.name for row in missing], skipped)


def _here(wanted: Sequence[Row], found: dict[str, dict]) -> list[Row]:
    return [row for row in wanted if row.name not in found and not why_absent(row.name, row.graph)]


def _show(rows: Sequence[dict]) -> None:
    table = Table(title="epochs under weather, and cuts of the best static variant's delay (*)")
    columns = ("calm", "mean", "simulated", "p95", "simulated", "delay cut", "members")
    for column in ("row", "weather", "variant", *columns):
        table.add_column(column, justify="right" if column in columns else "left")
    for row, result in ((each, weather) for each in rows for weather in each["weathers"]):
        for v in result["variants"]:
            mark = " *" if v["variant"] == result["best_static"] else ""
            table.add_row(
                row["row"],
                result["weather"],
                v["variant"] + mark,
                f"{v['calm_epoch_s']:.2f} s",
                f"{v['mean_epoch_s']:.2f} s",
                f"{v['simulated_mean_epoch_s']:.2f} s",
                f"{v['p95_epoch_s']:.2f} s",
                f"{v['simulated_p95_epoch_s']:.2f} s",
                f"{v['least_cut']:.2f}x",
                f"{v['mean_members']:.2f}",
            )
    Console().print(table)


def _show_accuracies(graphs: Sequence[dict]) -> None:
    if not graphs:
        return
    table = Table(title="test accuracy after 200 epochs: exact, and everything together under sleeps")
    names = ("graph", "weather", "variant")
    for column in (*names, "exact", "stale", "gap, points", "of the worst seed", "members"):
        table.add_column(column, justify="left" if column in names else "right")
    for graph, case in ((each, case) for each in graphs for case in each["cases"]):
        table.add_row(
            graph["graph"],
            case["weather"],
            case["variant"],
            f"{np.mean(case['exact']):.2%}",
            f"{np.mean(case['stale']):.2%}",
            f"{case['gap_pct']:+.2f}",
            f"{case['worst_seed_gap_pct']:+.2f}",
            f"{case['mean_members']:.2f}",
        )
    Console().print(table)
