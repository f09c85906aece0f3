"""What `fluctuation` says of its runs, and how it keeps it: each row and each graph as soon as it is known."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

import numpy as np

from benchmarks._fluctuation_accuracy import fingerprint as accuracy_fingerprint
from benchmarks._fluctuation_runs import (
    Case,
    between_epochs,
    counted_s,
    measured_lengths_s,
    simulated_lengths_s,
)
from benchmarks._fluctuation_settings import CALM, HALF, PARTIAL, STATIC, TOTAL, Row, Scale
from benchmarks._results import about, kept_parts
from gnnplan.planner.partial.rule import WARM_UP_EPOCHS
from gnnplan.planner.trace import Trace

FILE = "fluctuation"
_LEAST_DELAY = 0.01  # of a calm epoch
_WORST = ("between_epochs", "stolen_share")
_NUM_ERRORS = 2.0  # standard errors of its mean that a delay may be chance


def row_result(row: Row, scale: Scale, cases: Sequence[Case], left_out: list[str]) -> dict:
    """Everything measured of a row, all of whose cases have run.

    Args:
        left_out: variants that were not run, and why.
    """
    by_weather: dict[str, list[Case]] = {}
    for case in cases:
        by_weather.setdefault(case.weather.name, []).append(case)
    calm = {case.variant: case for case in by_weather.pop(CALM)}
    in_calm = {variant: figures(case) for variant, case in calm.items()}
    return {
        "row": row.name,
        "settings": scale.fingerprint(row),
        **about(),
        "left_out": left_out,
        "weathers": [_in_weather(here, in_calm) for here in by_weather.values()],
    }


def _in_weather(here: Sequence[Case], calm: dict[str, dict]) -> dict:
    """A row in one weather: every variant, and its cuts against the best static one."""
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
    partial, members = plan.partial, trace.num_members[WARM_UP_EPOCHS:]
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
        "covered_share": 1.0 if math.isinf(weather.until_s) else min(1.0, float(lengths_s.sum()) / weather.until_s),
        "between_epochs": between_epochs(case, lengths_s),
        "mean_members": float(np.mean(members)) if members else float(plan.num_workers),
        "oldest": max(trace.oldest, default=0),
        "alpha": partial.alpha if partial else None,
        "max_staleness": partial.max_staleness if partial else None,
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


def summary(rows: Sequence[dict], accuracies: Sequence[dict], missing: Sequence[str], skipped: Sequence[str]) -> dict:
    """The benchmark's result as far as it is known: means are over the rows that have run.

    Args:
        rows, accuracies: what is known of each row and graph; missing: names of the others.
    """
    results = [weather for row in rows for weather in row["weathers"]]
    cases = [case for graph in accuracies for case in graph["cases"]]
    return {
        "delay_cut_total": mean_cut(results, TOTAL),
        "delay_cut_by_half": mean_cut(results, HALF),
        "delay_cut_partial": mean_cut(results, PARTIAL),
        "of_sums": {variant: cut_of_sums(results, variant) for variant in (TOTAL, HALF, PARTIAL)},
        "least_delays": sum(v["is_least_delay"] for v in _variants(results)),
        "worst_accuracy_gap_pct": _worst_gap(cases, "gap_pct", TOTAL),
        "worst_accuracy_gap_by_half_pct": _worst_gap(cases, "gap_pct", HALF),
        "worst_seed_accuracy_gap_pct": _worst_gap(cases, "worst_seed_gap_pct", TOTAL),
        "worst_seed_accuracy_gap_by_half_pct": _worst_gap(cases, "worst_seed_gap_pct", HALF),
        **errors(results),
        **{f"worst_{which}": max((v[which] for v in _variants(results)), default=None) for which in _WORST},
        "least_covered_share": min((v["covered_share"] for v in _variants(results)), default=None),
        "missing": list(missing),
        "skipped": list(skipped),
        "rows": list(rows),
        "accuracies": list(accuracies),
    }


def _worst_gap(cases: Sequence[dict], which: str, variant: str) -> float | None:
    return max((case[which] for case in cases if case["variant"] == variant), default=None)


def _variants(results: Sequence[dict]) -> Iterator[dict]:
    for result in results:
        yield from result["variants"]


def kept_rows(rows: Sequence[Row], scale: Scale) -> dict[str, dict]:
    """What was written of these rows under the settings they have now, by name."""
    return kept_parts(FILE, "rows", "row", {row.name: scale.fingerprint(row) for row in rows})


def kept_accuracies(rows: Sequence[Row]) -> dict[str, dict]:
    """The same of accuracies, by graph."""
    return kept_parts(FILE, "accuracies", "graph", {row.name: accuracy_fingerprint(row) for row in rows})


def mean_cut(results: Sequence[dict], variant: str) -> float | None:
    """Geometric mean over rows and weathers; None where the variant was not run."""
    found = [v["least_cut"] for v in _variants(results) if v["variant"] == variant]
    return math.exp(float(np.mean(np.log(found)))) if found else None


def cut_of_sums(results: Sequence[dict], variant: str) -> float | None:
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


def errors(results: Sequence[dict]) -> dict:
    """How far simulated means and percentiles under weather are off, in either direction."""
    found: dict[str, float | None] = {}
    for which in ("mean", "p95"):
        off = [abs(v[f"{which}_error"]) for v in _variants(results)]
        found[f"worst_simulated_{which}_error"] = max(off, default=None)
        found[f"median_simulated_{which}_error"] = float(np.median(off)) if off else None
    return found
