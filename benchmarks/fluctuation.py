"""Fluctuating hosts: what an epoch takes under weather, and how much of the delay adjustment and partial reduce cut.

Four equal emulated hosts (0.45 cores, 200 Mbit/s) are profiled where they run. Every row (graph and model) is planned
as all communicated, all cached and hybrid, hybrid with online adjustment, all communicated with partial reduce,
everything together, and everything together in groups of half the hosts, where the paper's are majorities; with one
partitioner, equal shares and the same order of operators. alpha and K are the planner's own choice for sleeps; nobody
tells it of changing links and processors, so there they are the paper's 0.5 and 3. All meet the same weathers
(NeutronCloud, PVLDB 19(1), 2025):

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
variant's: a single large cut counts little in it. Beside them stands what adjusting itself costs: deciding between
epochs with the reductions by which workers agree, and preprocessing and staging against 100 calm epochs. Simulated
epochs are of the run's own sleeps and spells. Where workers decide again while they run, nobody simulates that: they
are simulated as if they did not, and their errors (`_of_adjusting`) stand beside those of the other variants.
Accuracies are means over three seeds; the gap of the worst seed stands beside the worst mean gap.

Finished runs are kept under `out/`, so an interrupted benchmark goes on where it stopped; one with processor time
stolen from this machine is repeated up to three times, and the least disturbed kept.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
from rich.console import Console
from rich.table import Table

from benchmarks._common import OUT
from benchmarks._fluctuation_accuracy import accuracy_rows
from benchmarks._fluctuation_costs import deciding_share, preprocessing_share
from benchmarks._fluctuation_runs import (
    Case,
    adjusts,
    between_epochs,
    counted_s,
    measured_lengths_s,
    plan_row,
    profiled,
    run_case,
    simulated_lengths_s,
)
from benchmarks._fluctuation_settings import (
    ADJUSTED,
    CALM,
    FULL,
    HALF,
    PARTIAL,
    QUICK,
    STATIC,
    TOTAL,
    Row,
    Scale,
    row_of,
)
from planner.cluster import Cluster
from planner.partial.rule import WARM_UP_EPOCHS
from planner.trace import Trace
from profiles.errors import UserError

_LEAST_DELAY = 0.01  # of a calm epoch
_NUM_ERRORS = 2.0  # standard errors of its mean that a delay may be chance


def main(quick: bool) -> dict:
    """Plans everything, runs what is not yet run, then compares accuracies."""
    if not quick:
        return _measure(FULL, OUT / "fluctuation")
    with TemporaryDirectory(prefix="gnnplan-fluctuation-") as folder:
        return _measure(QUICK, Path(folder))


def _measure(scale: Scale, folder: Path) -> dict:
    skipped: list[str] = []
    cluster = profiled(scale, folder)
    cases = [case for row in _rows(scale, skipped) for case in plan_row(row, cluster, folder, scale, skipped)]
    left_s = sum(case.expected_s for case in cases if not case.measured_path.exists())
    print(f"{len(cases)} runs, of which those to come take about {left_s / 60:.0f} min by their plans", flush=True)
    for case in cases:
        run_case(case, cluster, scale)
    results = [_result(here, calm) for here, calm in _by_weather(cases)]
    accuracies = accuracy_rows(scale.accuracy_graphs, cluster, folder, skipped) if scale.accuracy_graphs else []
    _show(results)
    _show_accuracies(accuracies)
    return {
        "delay_cut_adjustment": _mean_cut(results, ADJUSTED),
        "delay_cut_total": _mean_cut(results, TOTAL),
        "delay_cut_by_half": _mean_cut(results, HALF),
        "delay_cut_partial": _mean_cut(results, PARTIAL),
        "of_sums": {variant: _cut_of_sums(results, variant) for variant in (ADJUSTED, TOTAL, HALF, PARTIAL)},
        "least_delays": sum(v["is_least_delay"] for result in results for v in result["variants"]),
        "worst_accuracy_gap_pct": _worst(accuracies, "gap_pct", TOTAL),
        "worst_accuracy_gap_by_half_pct": _worst(accuracies, "gap_pct", HALF),
        "worst_seed_accuracy_gap_pct": _worst(accuracies, "worst_seed_gap_pct", TOTAL),
        "worst_seed_accuracy_gap_by_half_pct": _worst(accuracies, "worst_seed_gap_pct", HALF),
        **_errors(results),
        "worst_set_up_share": max(v["set_up_share"] for result in results for v in result["variants"]),
        "worst_deciding_share": max(v["deciding_share"] for result in results for v in result["variants"]),
        "worst_preprocessing_share": max(_preprocessing_shares(cases, cluster), default=None),
        "least_covered_share": min(v["covered_share"] for result in results for v in result["variants"]),
        "worst_between_epochs": max(v["between_epochs"] for result in results for v in result["variants"]),
        "worst_stolen_share": max(v["stolen_share"] for result in results for v in result["variants"]),
        "skipped": skipped,
        "rows": results,
        "accuracies": accuracies,
    }


def _worst(accuracies: Sequence[dict], which: str, variant: str) -> float | None:
    return max((row[which] for row in accuracies if row["variant"] == variant), default=None)


def _rows(scale: Scale, skipped: list[str]) -> Iterator[Row]:
    for name in scale.rows:
        try:
            yield row_of(name)
        except UserError as error:
            skipped.append(f"{name}: {error}")


def _by_weather(cases: Sequence[Case]) -> Iterator[tuple[list[Case], list[Case]]]:
    """The cases of every row and weather but the calm, and those of the row in calm."""
    groups: dict[tuple[str, str], list[Case]] = {}
    for case in cases:
        groups.setdefault((case.row, case.weather.name), []).append(case)
    for (row, weather), here in groups.items():
        if weather != CALM:
            yield here, groups[row, CALM]


def _preprocessing_shares(cases: Sequence[Case], cluster: Cluster) -> Iterator[float]:
    """Of every row, against its own calm epochs."""
    for case in cases:
        if case.variant == ADJUSTED and case.weather.name == CALM:
            yield preprocessing_share(case, cluster, figures(case)["mean_epoch_s"])


def _result(here: list[Case], in_calm: list[Case]) -> dict:
    """One row in one weather: every variant, and its cuts against the best static one."""
    calm = {case.variant: figures(case) for case in in_calm}
    variants = [
        {
            "variant": case.variant,
            "calm_epoch_s": calm[case.variant]["mean_epoch_s"],
            "calm_error_s": calm[case.variant]["standard_error_s"],
            **figures(case),
        }
        for case in here
    ]
    best = min((v for v in variants if v["variant"] in STATIC), key=lambda v: v["mean_epoch_s"])
    return {
        "row": here[0].row,
        "weather": here[0].weather.name,
        "until_s": here[0].weather.until_s if math.isfinite(here[0].weather.until_s) else None,
        "best_static": best["variant"],
        "variants": [{**variant, **cuts(variant, best)} for variant in variants],
    }


def figures(case: Case) -> dict:
    """What was measured of a run, beside what the simulator says of it."""
    plan, trace, weather = case.plan, Trace.load(case.measured_path), case.weather
    lengths_s = measured_lengths_s(trace)
    measured_s = counted_s(lengths_s, weather)
    simulated_s = counted_s(simulated_lengths_s(plan, weather), weather)
    partial, members = plan.decision.partial, trace.num_members[WARM_UP_EPOCHS:]
    return {
        "fidelity": plan.fidelity,
        "epochs": plan.job.training.epochs,
        "counted": len(measured_s),
        "mean_epoch_s": float(measured_s.mean()),
        "standard_error_s": float(measured_s.std() / math.sqrt(len(measured_s))),
        "p95_epoch_s": float(np.percentile(measured_s, 95)),
        "simulated_mean_epoch_s": float(simulated_s.mean()),
        "simulated_p95_epoch_s": float(np.percentile(simulated_s, 95)),
        "mean_error": float(simulated_s.mean() / measured_s.mean() - 1),
        "p95_error": float(np.percentile(simulated_s, 95) / np.percentile(measured_s, 95) - 1),
        "is_simulated_as_run": not adjusts(plan),
        "covered_share": 1.0 if math.isinf(weather.until_s) else min(1.0, float(lengths_s.sum()) / weather.until_s),
        "between_epochs": between_epochs(case, lengths_s),
        "mean_members": float(np.mean(members)) if members else float(plan.num_workers),
        "oldest": max(trace.oldest, default=0),
        "alpha": partial.alpha if partial else None,
        "max_staleness": partial.max_staleness if partial else None,
        "deciding_share": deciding_share(trace, lengths_s),
        "set_up_share": sum(each.set_up_s for each in trace.adjustments) / plan.num_workers / float(lengths_s.sum()),
        "splits_changed": len({each.epoch for each in trace.adjustments if each.changed}),
        "stolen_share": trace.stolen_share,
    }


def cuts(variant: dict, best: dict) -> dict:
    """A variant's delays and cuts on both bases, and the smaller cut, against the best static variant's."""
    theirs_s = _delay_s(best, best)
    own_s, from_best_s = _delay_s(variant, variant), _delay_s(variant, best)
    return {
        "delay_s": own_s,
        "delay_from_best_s": from_best_s,
        "cut": theirs_s / own_s,
        "cut_from_best": theirs_s / from_best_s,
        "least_cut": theirs_s / max(own_s, from_best_s),
        "is_least_delay": max(own_s, from_best_s) <= max(_least_delay_s(variant), _least_delay_s(best)),
    }


def _delay_s(variant: dict, base: dict) -> float:
    """Seconds that a variant's mean epoch is longer than a calm one of `base`."""
    return max(variant["mean_epoch_s"] - base["calm_epoch_s"], _least_delay_s(base))


def _least_delay_s(base: dict) -> float:
    return max(_LEAST_DELAY * base["calm_epoch_s"], _NUM_ERRORS * base["calm_error_s"])


def _mean_cut(results: Sequence[dict], variant: str) -> float | None:
    """Geometric mean over rows and weathers; None where the variant was not run."""
    found = [v["least_cut"] for result in results for v in result["variants"] if v["variant"] == variant]
    return math.exp(float(np.mean(np.log(found)))) if found else None


def _cut_of_sums(results: Sequence[dict], variant: str) -> float | None:
    """All delays of the best statics over all of a variant's, in calm epochs of their rows; None where not run."""
    theirs, ours = [], []
    for result in results:
        by_name = {each["variant"]: each for each in result["variants"]}
        if variant in by_name:
            best = by_name[result["best_static"]]
            theirs.append(_delay_s(best, best) / best["calm_epoch_s"])
            both_s = by_name[variant]["delay_s"], by_name[variant]["delay_from_best_s"]
            ours.append(max(both_s) / best["calm_epoch_s"])
    return sum(theirs) / sum(ours) if ours else None


def _errors(results: Sequence[dict]) -> dict:
    """How far simulated means and percentiles under weather are off, in either direction.

    Variants that decide again while they run are simulated as if they did not, so theirs stand apart.
    """
    found: dict[str, float | None] = {}
    for which in ("mean", "p95"):
        for as_run, of_whom in ((True, ""), (False, "_of_adjusting")):
            errors = [
                abs(v[f"{which}_error"])
                for result in results
                for v in result["variants"]
                if v["is_simulated_as_run"] == as_run
            ]
            found[f"worst_simulated_{which}_error{of_whom}"] = max(errors, default=None)
            found[f"median_simulated_{which}_error{of_whom}"] = float(np.median(errors)) if errors else None
    return found


def _show(results: Sequence[dict]) -> None:
    table = Table(title="epochs under weather, and cuts of the best static variant's delay (*)")
    columns = ("calm", "mean", "simulated", "p95", "simulated", "delay cut", "members")
    for column in ("row", "weather", "variant", *columns):
        table.add_column(column, justify="right" if column in columns else "left")
    for result in results:
        for v in result["variants"]:
            mark = " *" if v["variant"] == result["best_static"] else ""
            table.add_row(
                result["row"],
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


def _show_accuracies(rows: Sequence[dict]) -> None:
    if not rows:
        return
    table = Table(title="test accuracy after 200 epochs: exact, and everything together under sleeps")
    names = ("graph", "weather", "variant")
    for column in (*names, "exact", "stale", "gap, points", "of the worst seed", "members"):
        table.add_column(column, justify="left" if column in names else "right")
    for row in rows:
        table.add_row(
            row["graph"],
            row["weather"],
            row["variant"],
            f"{np.mean(row['exact']):.2%}",
            f"{np.mean(row['stale']):.2%}",
            f"{row['gap_pct']:+.2f}",
            f"{row['worst_seed_gap_pct']:+.2f}",
            f"{row['mean_members']:.2f}",
        )
    Console().print(table)
