"""Predicted against measured epochs on emulated clusters, before and after calibration; ranking; memory.

Every cluster is profiled once where its hosts run, before any run. Half of its settings (every
other one) then calibrate the profile; what is reported as "after" is the other half alone. Finished
runs are kept under `out/`, so an interrupted benchmark goes on where it stopped.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from rich.console import Console
from rich.table import Table

from benchmarks._common import OUT
from benchmarks._emulated_runs import Run, run_cluster
from benchmarks._emulated_settings import clusters, groups
from planner.calibrate import calibrate
from planner.plan import Plan
from planner.search import simulate_plan
from profiles.machine import MachineProfile

_QUICK_CLUSTERS = 1
_BEST_WITHIN = 1.03
_NUM_REPLICAS = 1000


@dataclass(frozen=True)
class Outcome:
    """A run beside its predictions, seconds; `after_s` only where the run did not calibrate.

    The median of epochs whose tasks fluctuate as they were profiled to; `steady_s` is the epoch in which none does.
    """

    run: Run
    before_s: float
    after_s: float | None
    steady_s: float

    @property
    def measured_s(self) -> float:
        """Median over the rounds of the median epoch."""
        return float(np.median(self._rounds_s))

    @property
    def spread(self) -> float:
        """Of the repeated runs: longest less shortest median epoch, over their median."""
        return float(np.ptp(self._rounds_s)) / self.measured_s

    @property
    def epoch_spread(self) -> float:
        """Within a run: interquartile range of its epochs over their median, mean over the rounds."""
        return float(np.mean([trace.epoch_spread_s / trace.median_epoch_s for trace in self.run.measured]))

    @property
    def _rounds_s(self) -> list[float]:
        return [trace.median_epoch_s for trace in self.run.measured]


def main(quick: bool) -> dict:
    """Runs what is not yet run, then predicts everything anew from the kept profiles."""
    outcomes: list[Outcome] = []
    chosen = list(clusters().items())[: _QUICK_CLUSTERS if quick else None]
    for name, cluster in chosen:
        mine = [group for group in groups() if group.cluster == name][: 1 if quick else None]
        folder = OUT / ("prediction_quick" if quick else "prediction") / name.replace(" ", "_")
        outcomes += _outcomes(run_cluster(cluster, mine, folder, quick=quick))
    _show(outcomes)
    before = [abs(outcome.before_s / outcome.measured_s - 1) for outcome in outcomes]
    held_out = [outcome for outcome in outcomes if outcome.after_s is not None]
    after = [abs(outcome.after_s / outcome.measured_s - 1) for outcome in held_out if outcome.after_s]
    memory = [error for outcome in outcomes for error in _memory_errors(outcome)]
    return {
        "settings": len(outcomes),
        "mape_before": float(np.mean(before)),
        "worst_before": float(np.max(before)),
        "mape_before_steady": float(np.mean([abs(o.steady_s / o.measured_s - 1) for o in outcomes])),
        "held_out": len(held_out),
        "mape_before_held_out": float(np.mean([abs(o.before_s / o.measured_s - 1) for o in held_out])),
        "mape_after": float(np.mean(after)),
        "worst_after": float(np.max(after)),
        "median_spread": float(np.median([outcome.spread for outcome in outcomes])),
        "median_epoch_spread": float(np.median([outcome.epoch_spread for outcome in outcomes])),
        "worst_stolen_share": max(trace.stolen_share for outcome in outcomes for trace in outcome.run.measured),
        **_ranking(outcomes),
        "memory_mape": float(np.mean(np.abs(memory))),
        "memory_worst_over": float(np.max(memory)),
        "memory_worst_under": float(np.min(memory)),
        "rows": [_row(outcome) for outcome in outcomes],
    }


def _outcomes(runs: Sequence[Run]) -> list[Outcome]:
    """Calibrates on the runs of even index, judges those of odd index."""
    fitted = calibrate([(run.plan, trace) for run in runs if run.index % 2 == 0 for trace in run.measured]).profiles
    return [
        Outcome(
            run,
            _expected_s(run.plan),
            _expected_s(_with_profiles(run.plan, fitted)) if run.index % 2 else None,
            simulate_plan(run.plan).median_epoch_s,
        )
        for run in runs
    ]


def _expected_s(plan: Plan) -> float:
    return simulate_plan(plan, _NUM_REPLICAS).expected_epoch_s


def _with_profiles(plan: Plan, fitted: dict[str, MachineProfile]) -> Plan:
    """The same plan, predicted by other profiles of the same names."""
    profiles = {key: fitted.get(profile.name, profile) for key, profile in plan.placement.profiles.items()}
    return plan.model_copy(update={"placement": plan.placement.model_copy(update={"profiles": profiles})})


def _ranking(outcomes: Sequence[Outcome]) -> dict:
    """Share of the groups in which the plan predicted best is measured within 3% of the best."""
    by_group: dict[tuple[str, str], list[Outcome]] = {}
    for outcome in outcomes:
        by_group.setdefault((outcome.run.group.cluster, outcome.run.group.name), []).append(outcome)
    regrets = []
    for members in by_group.values():
        picked = min(members, key=lambda outcome: outcome.before_s)
        regrets.append(picked.measured_s / min(outcome.measured_s for outcome in members) - 1)
    right = sum(regret <= _BEST_WITHIN - 1 for regret in regrets)
    return {"groups": len(regrets), "ranking_right": right / len(regrets), "ranking_worst_regret": max(regrets)}


def _memory_errors(outcome: Outcome) -> list[float]:
    predicted = [worker.peak_bytes for worker in outcome.run.plan.prediction.workers]
    measured = np.median([trace.peak_bytes for trace in outcome.run.measured], 0)
    return [ours / theirs - 1 for ours, theirs in zip(predicted, measured.tolist())]


def _row(outcome: Outcome) -> dict:
    return {
        "cluster": outcome.run.group.cluster,
        "group": outcome.run.group.name,
        "plan": outcome.run.plan.job.name,
        "measured_s": outcome.measured_s,
        "spread": outcome.spread,
        "epoch_spread": outcome.epoch_spread,
        "stolen_share": max(trace.stolen_share for trace in outcome.run.measured),
        "before_s": outcome.before_s,
        "steady_s": outcome.steady_s,
        "error_before": outcome.before_s / outcome.measured_s - 1,
        "error_after": outcome.after_s / outcome.measured_s - 1 if outcome.after_s else None,
        "memory_errors": _memory_errors(outcome),
    }


def _show(outcomes: Sequence[Outcome]) -> None:
    table = Table(title="predicted against measured median epoch on emulated clusters")
    for column in ("setting", "measured", "spread", "error before", "after", "memory, worst"):
        table.add_column(column, justify="left" if column == "setting" else "right")
    for outcome in outcomes:
        row = _row(outcome)
        after = "calibrates" if row["error_after"] is None else f"{row['error_after']:+.1%}"
        table.add_row(
            outcome.run.name,
            f"{outcome.measured_s * 1e3:.0f} ms",
            f"{outcome.spread:.1%}",
            f"{row['error_before']:+.1%}",
            after,
            f"{max(row['memory_errors'], key=abs):+.1%}",
        )
    Console().print(table)
