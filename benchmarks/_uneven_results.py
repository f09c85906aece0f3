"""What `uneven` says of its rows, and how it keeps them: each is written as soon as it is known.

A gain is *undecided* where its plan is predicted to take just as long as the other one (then it mostly is the same
plan), or where 1 lies within the range of the measured ratios, widened by their noise on either side. Noise is the
largest of half the range of the rounds' ratios and half the range of any run's groups of epochs, all relative; where
epochs are so long that runs are of one group, it is that of the rounds alone. Any other gain has the right sign where
prediction and median ratio lie on one side of 1, else the wrong one.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence

import numpy as np

from benchmarks._common import chosen
from benchmarks._results import about, keep, kept_parts, record_of, today
from benchmarks._uneven_runs import Timed, Trained, epoch_s, groups_s
from benchmarks._uneven_settings import ALL, ALL_BUSY, ALL_EXACT, BASE, REMOVED, SEEDS, Row
from gnnplan.planner.prediction import WorkerLoad
from gnnplan.planner.trace import Trace

RIGHT, WRONG, UNDECIDED = "right", "wrong", "undecided"
_FILE = "uneven"


def row_result(row: Row, timed: Mapping[str, Timed]) -> dict:
    """Everything timed of a row; its accuracies come later (`with_accuracy`)."""
    variants = [_variant(name, base, timed) for base, names in row.comparisons for name in names]
    speedups = {variant["variant"]: variant["speedup"] for variant in variants}
    return {
        "row": row.name,
        "settings": row.fingerprint(),
        **about(),
        "pace_s": float(np.median([seconds for each in timed.values() for seconds in each.pace_s])),
        "epochs": timed[BASE].plan.job.training.epochs,
        "exact_speedup": speedups[ALL_EXACT],
        "exact_speedup_all_busy": speedups[ALL_BUSY],
        "approximate_speedup": speedups[ALL],
        "accuracies": {},
        "accuracy_gap_pct": None,
        "variants": variants,
        "removed": [{"axis": axis, **gain(ALL, without, timed)} for axis, without in REMOVED.items()],
    }


def with_accuracy(result: dict, seed: int, trained: Mapping[str, Trained]) -> dict:
    """A row's result with the accuracies of one seed more, and whether the plans trained are those that were timed.

    The gap is the mean over seeds.
    """
    timed = {variant["variant"]: variant["plan"] for variant in result["variants"]}
    found = {variant: each.accuracy for variant, each in trained.items()}
    accuracies = result["accuracies"] | {str(seed): found}
    gaps_pct = [100 * (each[BASE] - each[ALL]) for each in accuracies.values()]
    are_timed = all(each.plan.fingerprint() == timed[name] for name, each in trained.items())
    return result | {
        "accuracies": accuracies,
        "accuracy_gap_pct": float(np.mean(gaps_pct)),
        "accuracy_gaps_pct": gaps_pct,
        "accuracy_date": today(),
        "accuracy_of_timed_plans": result.get("accuracy_of_timed_plans", True) and are_timed,
        "accuracy_fidelity": trained[ALL].plan.fidelity,
    }


def gain(name: str, base: str, timed: Mapping[str, Timed]) -> dict:
    """Of a variant over another, predicted and measured: the median of the rounds' ratios, and their range."""
    ours, theirs = timed[name], timed[base]
    ratios = [epoch_s(without) / epoch_s(own) for without, own in zip(theirs.traces, ours.traces, strict=True)]
    predicted = theirs.plan.prediction.epoch_s / ours.plan.prediction.epoch_s
    measured, noise = float(np.median(ratios)), noise_of(ratios, [*ours.traces, *theirs.traces])
    return {
        "variant": name,
        "against": base,
        "speedup": measured,
        "speedup_range": [min(ratios), max(ratios)],
        "noise": noise,
        "predicted_speedup": predicted,
        "gain_error": predicted / measured - 1,
        "sign": sign_of(predicted, ratios, noise),
    }


def noise_of(ratios: Sequence[float], traces: Sequence[Trace]) -> float:
    """Share by which a ratio may be off, by the rounds and by the groups of epochs in a run."""
    return max(float(np.ptp(values) / 2 / np.median(values)) for values in (ratios, *map(groups_s, traces)))


def sign_of(predicted: float, ratios: Sequence[float], noise: float) -> str:
    """Whether a gain is predicted on the side of 1 where it was measured."""
    if predicted == 1 or min(ratios) * (1 - noise) <= 1 <= max(ratios) * (1 + noise):
        return UNDECIDED
    return RIGHT if (predicted > 1) == (min(ratios) > 1) else WRONG


def sent_as_predicted(traces: Sequence[Trace], loads: Sequence[WorkerLoad], *, is_stale: bool) -> bool:
    """Whether every worker sent in every round what it was predicted to, in both kinds of epochs."""
    predicted = [tuple(load.sent_bytes for load in loads)]
    if is_stale:
        predicted.append(tuple(load.reuse_sent_bytes for load in loads))
    return all([trace.sent_bytes, trace.reuse_sent_bytes][: len(predicted)] == predicted for trace in traces)


def is_complete(result: dict | None, seeds: Sequence[int] = SEEDS) -> bool:
    """Whether a row is timed and trained from every seed."""
    return result is not None and not missing_seeds(result, seeds)


def missing_seeds(result: dict, seeds: Sequence[int] = SEEDS) -> list[int]:
    """From which a row is not yet trained."""
    return [seed for seed in seeds if str(seed) not in result["accuracies"]]


def widest_gap_first(rows: Sequence[Row], results: Mapping[str, dict]) -> list[Row]:
    """Whose noise matters most; rows that are not trained at all before all others."""
    gaps_pct = {row.name: results[row.name]["accuracy_gap_pct"] for row in rows}
    return sorted(rows, key=lambda row: -math.inf if gaps_pct[row.name] is None else -gaps_pct[row.name])


def summary(rows: Sequence[Row], results: Mapping[str, dict], skipped: list[str], seeds: Sequence[int] = SEEDS) -> dict:
    """The benchmark's result as far as it is known: means are over the rows that are timed."""
    found = [results[row.name] for row in rows if row.name in results]
    gains = [(result["row"], each) for result in found for each in _gains(result)]
    return {
        "exact_speedup": _geometric_mean(found, "exact_speedup"),
        "exact_speedup_all_busy": _geometric_mean(found, "exact_speedup_all_busy"),
        "approximate_speedup": _geometric_mean(found, "approximate_speedup"),
        "worst_accuracy_gap_pct": max((r["accuracy_gap_pct"] for r in found if r["accuracies"]), default=None),
        "worst_gain_error": max((abs(each["gain_error"]) for _, each in gains), default=None),
        "all_bytes_as_predicted": all(v["sent_as_predicted"] for r in found for v in r["variants"]),
        "gains_of_the_right_sign": all(each["sign"] != WRONG for _, each in gains),
        "sign_counts": {sign: len(_of_sign(gains, sign)) for sign in (RIGHT, WRONG, UNDECIDED)},
        "wrong_signs": _of_sign(gains, WRONG),
        "undecided_signs": _of_sign(gains, UNDECIDED),
        "missing_rows": [row.name for row in rows if not is_complete(results.get(row.name), seeds)],
        "skipped": skipped,
        "rows": found,
    }


def kept_results(rows: Sequence[Row]) -> dict[str, dict]:
    """What was written of these rows under the settings they have now, by name; some may lack their accuracies."""
    return kept_parts(_FILE, "rows", "row", {row.name: row.fingerprint() for row in rows})


def keep_results(rows: Sequence[Row], results: Mapping[str, dict], skipped: list[str]) -> None:
    """Writes all that is known."""
    keep(_FILE, record_of(_FILE, summary(rows, results, skipped)))


def _variant(name: str, base: str, timed: Mapping[str, Timed]) -> dict:
    """A variant's gain over its base, and what its plan decided; a base itself has no sign."""
    ours = timed[name]
    plan, loads = ours.plan, ours.plan.prediction.workers
    sharing, is_stale = chosen(plan, "halo_exchange") or {}, plan.is_stale
    return {
        **gain(name, base, timed),
        **({"sign": None} if name == base else {}),
        "plan": plan.fingerprint(),
        "epoch_s": float(np.median([epoch_s(trace) for trace in ours.traces])),
        "predicted_epoch_s": plan.prediction.epoch_s,
        "fidelity": plan.fidelity,
        "edges_pruned": (chosen(plan, "pruning") or {"num_edges": 0})["num_edges"],
        "shares": sharing["shares"],
        "balance": sharing["balance"],
        "overlap": chosen(plan, "overlap") is not None,
        "stolen_share": max(trace.stolen_share for trace in ours.traces),
        "sent_bytes": ours.traces[0].sent_bytes,
        "reuse_sent_bytes": ours.traces[0].reuse_sent_bytes if is_stale else (),
        "sent_as_predicted": sent_as_predicted(ours.traces, loads, is_stale=is_stale),
    }


def _gains(result: dict) -> Iterator[dict]:
    """Every axis alone and all combinations against their base, then what each axis is worth within all."""
    yield from (variant for variant in result["variants"] if variant["sign"] is not None)
    yield from result["removed"]


def _of_sign(gains: Sequence[tuple[str, dict]], sign: str) -> list[dict]:
    keys = ("variant", "against", "predicted_speedup", "speedup_range", "noise")
    return [{"row": row, **{key: each[key] for key in keys}} for row, each in gains if each["sign"] == sign]


def _geometric_mean(results: Sequence[dict], key: str) -> float | None:
    """None of no results."""
    return math.exp(float(np.mean([math.log(result[key]) for result in results]))) if results else None
