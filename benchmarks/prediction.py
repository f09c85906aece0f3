"""Predicted against measured epochs on emulated clusters, before and after calibration; ranking; memory.

Every cluster is profiled once where its hosts run, before any run. Each half of its settings (every
other one) then calibrates the profile for the other half: what is reported as "after" is never of a
run that calibrated. The halves are of different plans (unpinned and aggregate first; multiply first),
so each is also reported alone. Plans that the planner would choose are easily the best of a group, so
the ranking is reported without them too. Finished runs are kept under `out/`, so an interrupted
benchmark goes on where it stopped.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from rich.console import Console
from rich.table import Table

from benchmarks._common import OUT
from benchmarks._emulated_runs import Run, run_cluster
from benchmarks._emulated_settings import UNPINNED, clusters, groups
from planner.calibrate import calibrate
from planner.plan import Plan
from planner.search import simulate_plan
from profiles.machine import MachineProfile

_QUICK_CLUSTERS = 1
_BEST_WITHIN = 1.03
_NUM_REPLICAS = 1000


@dataclass(frozen=True)
class Outcome:
    """A run beside its predictions, seconds; `after_s` by a profile that the other half calibrated.

    The median of epochs whose tasks fluctuate as they were profiled to; `steady_s` is the epoch in which none does.
    """

    run: Run
    before_s: float
    before_p95_s: float
    after_s: float
    steady_s: float

    @property
    def half(self) -> int:
        """Which of its cluster's settings it is one of."""
        return self.run.index % 2

    @property
    def measured_s(self) -> float:
        """Median over the rounds of the median epoch."""
        return float(np.median(self._rounds_s))

    @property
    def measured_p95_s(self) -> float:
        """Median over the rounds of the 95th percentile."""
        return float(np.median([trace.p95_epoch_s for trace in self.run.measured]))

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
    before, after = ([abs(error(o)) for o in outcomes] for error in (_error_before, _error_after))
    memory = [error for outcome in outcomes for error in _memory_errors(outcome)]
    return {
        "settings": len(outcomes),
        "mape_before": float(np.mean(before)),
        "worst_before": float(np.max(before)),
        "mape_before_steady": float(np.mean([abs(o.steady_s / o.measured_s - 1) for o in outcomes])),
        "mape_before_p95": float(np.mean([abs(o.before_p95_s / o.measured_p95_s - 1) for o in outcomes])),
        "mape_after": float(np.mean(after)),
        "worst_after": float(np.max(after)),
        "halves": [_half([o for o in outcomes if o.half == half]) for half in (0, 1)],
        "median_spread": float(np.median([outcome.spread for outcome in outcomes])),
        "median_epoch_spread": float(np.median([outcome.epoch_spread for outcome in outcomes])),
        "worst_stolen_share": max(trace.stolen_share for outcome in outcomes for trace in outcome.run.measured),
        **_ranking(outcomes),
        "ranking_of_pinned": _ranking([o for o in outcomes if o.run.plan.job.name != UNPINNED]),
        "memory_mape": float(np.mean(np.abs(memory))),
        "memory_worst_over": float(np.max(memory)),
        "memory_worst_under": float(np.min(memory)),
        "rows": [_row(outcome) for outcome in outcomes],
    }


def _outcomes(runs: Sequence[Run]) -> list[Outcome]:
    """Judges each run by what the runs of the other half calibrated."""
    fitted = [
        calibrate([(run.plan, trace) for run in runs if run.index % 2 != half for trace in run.measured]).profiles
        for half in (0, 1)
    ]
    return [_outcome(run, fitted[run.index % 2]) for run in runs]


def _outcome(run: Run, fitted: dict[str, MachineProfile]) -> Outcome:
    before = simulate_plan(run.plan, _NUM_REPLICAS)
    assert before.fluctuating
    after = simulate_plan(_with_profiles(run.plan, fitted), _NUM_REPLICAS)
    return Outcome(
        run, before.expected_epoch_s, before.fluctuating.p95_s, after.expected_epoch_s, before.median_epoch_s
    )


def _error_before(outcome: Outcome) -> float:
    return outcome.before_s / outcome.measured_s - 1


def _error_after(outcome: Outcome) -> float:
    return outcome.after_s / outcome.measured_s - 1


def _half(outcomes: Sequence[Outcome]) -> dict:
    """Errors of one half, calibrated by the other."""
    after = [abs(_error_after(outcome)) for outcome in outcomes]
    return {
        "plans": sorted({outcome.run.plan.job.name for outcome in outcomes}),
        "mape_before": float(np.mean([abs(_error_before(outcome)) for outcome in outcomes])),
        "mape_after": float(np.mean(after)),
        "worst_after": float(np.max(after)),
    }


def _with_profiles(plan: Plan, fitted: dict[str, MachineProfile]) -> Plan:
    """The same plan, predicted by other profiles of the same names."""
    profiles = {key: fitted.get(profile.name, profile) for key, profile in plan.placement.profiles.items()}
    return plan.model_copy(update={"placement": plan.placement.model_copy(update={"profiles": profiles})})


def _ranking(outcomes: Sequence[Outcome]) -> dict:
    """Share of the groups of two plans or more in which the one predicted best is measured within 3% of the best."""
    by_group: dict[tuple[str, str], list[Outcome]] = {}
    for outcome in outcomes:
        by_group.setdefault((outcome.run.group.cluster, outcome.run.group.name), []).append(outcome)
    regrets = []
    for members in (group for group in by_group.values() if len(group) > 1):
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
        "half": outcome.half,
        "error_before": _error_before(outcome),
        "error_after": _error_after(outcome),
        "memory_errors": _memory_errors(outcome),
    }


def _show(outcomes: Sequence[Outcome]) -> None:
    table = Table(title="predicted against measured median epoch on emulated clusters")
    for column in ("setting", "measured", "spread", "error before", "after", "memory, worst"):
        table.add_column(column, justify="left" if column == "setting" else "right")
    for outcome in outcomes:
        row = _row(outcome)
        table.add_row(
            outcome.run.name,
            f"{outcome.measured_s * 1e3:.0f} ms",
            f"{outcome.spread:.1%}",
            f"{row['error_before']:+.1%}",
            f"{row['error_after']:+.1%}",
            f"{max(row['memory_errors'], key=abs):+.1%}",
        )
    Console().print(table)
