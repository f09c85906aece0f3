"""What `prediction` says of its settings: a row each, and figures over all rows that are known."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from benchmarks._prediction_runs import Run
from benchmarks._prediction_settings import UNPINNED, Group, fingerprint
from benchmarks._results import about
from gnnplan.planner.calibrate import calibrate
from gnnplan.planner.calibration.observe import with_profiles
from gnnplan.planner.search import simulate_plan
from gnnplan.planner.search.predict import loads_of
from gnnplan.profiles.machine import MachineProfile

_BEST_WITHIN = 1.03
_NUM_REPLICAS = 1000


def cluster_result(cluster: str, groups: Sequence[Group], runs: Sequence[Run]) -> dict:
    """A cluster's rows: every run is judged by what the runs of the other half calibrated."""
    halves = {half: _fitted([run for run in runs if run.index % 2 != half]) for half in (0, 1)}
    others = {group.name: _fitted([run for run in runs if run.group.name != group.name]) for group in groups}
    return {
        "cluster": cluster,
        "settings": fingerprint(cluster, groups),
        **about(),
        "rows": [_row(run, halves[run.index % 2], others[run.group.name]) for run in runs],
    }


def _fitted(runs: Sequence[Run]) -> dict[str, MachineProfile]:
    """The profiles that these runs calibrate; none where there are no runs."""
    pairs = [(run.plan, trace) for run in runs for trace in run.measured]
    return calibrate(pairs).profiles if pairs else {}


def _row(run: Run, half: dict[str, MachineProfile], others: dict[str, MachineProfile]) -> dict:
    """A run beside its predictions; `after_s` by profiles that the other half calibrated.

    That half has plans of the same graph and model; `error_after_others` is by what the cluster's other group, of
    another graph and model, calibrated (None where there is no other).

    The median of epochs whose tasks fluctuate as they were profiled to; `steady_s` is the epoch in which none does.
    Measured is the median over the rounds. `spread` is of the repeated runs: longest less shortest median epoch, over
    their median; `epoch_spread` within a run: interquartile range of its epochs over their median, as a mean of rounds.
    `error_repeat` is what the first run is off the median of the others: how well a run itself predicts the next.
    """
    before = simulate_plan(run.plan, _NUM_REPLICAS)
    assert before.fluctuating
    after_s, after_others_s = (
        simulate_plan(with_profiles(run.plan, fitted), _NUM_REPLICAS).expected_epoch_s for fitted in (half, others)
    )
    rounds_s = [trace.median_epoch_s for trace in run.measured]
    measured_s = float(np.median(rounds_s))
    measured_p95_s = float(np.median([trace.p95_epoch_s for trace in run.measured]))
    return {
        "group": run.group.name,
        "plan": run.plan.job.name,
        "half": run.index % 2,
        "measured_s": measured_s,
        "spread": float(np.ptp(rounds_s)) / measured_s,
        "epoch_spread": float(np.mean([trace.epoch_spread_s / trace.median_epoch_s for trace in run.measured])),
        "stolen_share": max(trace.stolen_share for trace in run.measured),
        "before_s": before.expected_epoch_s,
        "steady_s": before.median_epoch_s,
        "after_s": after_s,
        "error_before": before.expected_epoch_s / measured_s - 1,
        "error_steady": before.median_epoch_s / measured_s - 1,
        "error_p95": before.fluctuating.p95_s / measured_p95_s - 1,
        "error_after": after_s / measured_s - 1,
        "error_after_others": after_others_s / measured_s - 1 if others else None,
        "error_repeat": rounds_s[0] / float(np.median(rounds_s[1:] or rounds_s)) - 1,
        "memory_errors": _memory_errors(run),
    }


def _memory_errors(run: Run) -> list[float]:
    assert run.plan.cycle
    predicted = [worker.peak_bytes for worker in loads_of(run.plan.cycle.cycle(), run.plan.placement)]
    measured = np.max([trace.peak_bytes for trace in run.measured], 0)
    return [ours / theirs - 1 for ours, theirs in zip(predicted, measured.tolist())]


def summary(results: Sequence[dict], missing: Sequence[str], skipped: Sequence[str]) -> dict:
    """The benchmark's result as far as it is known.

    Args:
        results: of each cluster that has run; missing: names of the others; skipped: why some cannot run here.
    """
    rows = [row for result in results for row in result["rows"]]
    memory = [error for row in rows for error in row["memory_errors"]]
    return {
        "settings": len(rows),
        "mape_before": _mape(rows, "before"),
        "worst_before": _worst(rows, "before"),
        "mape_before_steady": _mape(rows, "steady"),
        "mape_before_p95": _mape(rows, "p95"),
        "mape_after": _mape(rows, "after"),
        "worst_after": _worst(rows, "after"),
        "mape_after_others": _mape([row for row in rows if row["error_after_others"] is not None], "after_others"),
        "mape_repeat": _mape(rows, "repeat"),
        "halves": [_half([row for row in rows if row["half"] == half]) for half in (0, 1)],
        "median_spread": float(np.median([row["spread"] for row in rows])),
        "median_epoch_spread": float(np.median([row["epoch_spread"] for row in rows])),
        "worst_stolen_share": max(row["stolen_share"] for row in rows),
        **ranking(results),
        "ranking_of_pinned": ranking(results, without=UNPINNED),
        "memory_mape": float(np.mean(np.abs(memory))),
        "memory_worst_over": float(np.max(memory)),
        "memory_worst_under": float(np.min(memory)),
        "missing": list(missing),
        "skipped": list(skipped),
        "clusters": list(results),
    }


def _mape(rows: Sequence[dict], which: str) -> float | None:
    """None of no rows."""
    return float(np.mean([abs(row[f"error_{which}"]) for row in rows])) if rows else None


def _worst(rows: Sequence[dict], which: str) -> float:
    return max(abs(row[f"error_{which}"]) for row in rows)


def _half(rows: Sequence[dict]) -> dict:
    """Errors of one half, calibrated by the other."""
    return {
        "plans": sorted({row["plan"] for row in rows}),
        "mape_before": _mape(rows, "before"),
        "mape_after": _mape(rows, "after"),
        "worst_after": _worst(rows, "after"),
    }


def ranking(results: Sequence[dict], without: str | None = None) -> dict:
    """Share of the groups of two plans or more in which the one predicted best is measured within 3% of the best."""
    by_group: dict[tuple[str, str], list[dict]] = {}
    for result in results:
        for row in result["rows"]:
            if row["plan"] != without:
                by_group.setdefault((result["cluster"], row["group"]), []).append(row)
    regrets = []
    for members in (group for group in by_group.values() if len(group) > 1):
        picked = min(members, key=lambda row: row["before_s"])
        regrets.append(picked["measured_s"] / min(row["measured_s"] for row in members) - 1)
    right = sum(regret <= _BEST_WITHIN - 1 for regret in regrets)
    return {
        "groups": len(regrets),
        "ranking_right": right / len(regrets) if regrets else None,
        "ranking_worst_regret": max(regrets, default=None),
    }
