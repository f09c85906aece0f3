"""Accuracy of everything together under sleeps, against exact training: 200 epochs on the emulated hosts.

With their limits: on this machine's own processors epochs would be so short that they jitter by more than is waited
for, and rows would be old where no sleep makes them so.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import product
from pathlib import Path

import numpy as np

from benchmarks._common import DATASETS, fingerprint_of, on_all
from benchmarks._emulated import Emulation, loaded, started_fast
from benchmarks._fluctuation_runs import slug, with_training
from benchmarks._fluctuation_settings import ALL_COMMUNICATED, HALF, TOTAL, VARIANTS, Row
from benchmarks._results import about
from gnnplan.planner import api
from gnnplan.planner.cluster import Cluster
from gnnplan.planner.graph_spec import NpzGraph
from gnnplan.planner.model_spec import ModelSpec
from gnnplan.planner.plan import Plan
from gnnplan.planner.trace import Trace
from gnnplan.planner.training_spec import TrainingSpec
from gnnplan.planner.weather.model import SleepWeather

_EPOCHS, _SEEDS = 200, (0, 1, 2)
_HIDDEN = 64
_STALE = (TOTAL, HALF)
# Five seconds of section 6.1 are about one and a half epochs of the paper's own (its table 2).
_WEATHERS = {
    "sleep 1.5 epochs": SleepWeather(sleep_epochs=1.5),
    "sleep 2 epochs, five on end": SleepWeather(sleep_epochs=2.0, duration_epochs=5),
}


def row_of(graph: str) -> Row:
    """What is trained on a graph."""
    spec = NpzGraph(source="npz", path=DATASETS / f"{graph}.npz")
    return Row(graph, spec, ModelSpec(kind="gcn", hidden_channels=_HIDDEN), "multiply_first")


def fingerprint(row: Row) -> str:
    """Of the settings that accuracies are of."""
    pins = {variant: VARIANTS[variant] for variant in (ALL_COMMUNICATED, *_STALE)}
    return fingerprint_of([row.settings(), pins, _WEATHERS, _EPOCHS, _SEEDS])


def accuracies_of(row: Row, cluster: Cluster, folder: Path, emulation: Emulation) -> dict:
    """All cases of a graph; what is not yet kept is trained."""
    return {
        "graph": row.name,
        "settings": fingerprint(row),
        **about(),
        "cases": _Comparison(row, cluster, folder / "accuracy", emulation).cases(),
    }


@dataclass(frozen=True)
class _Comparison:
    """One graph: exact training from several seeds, and stale training from the same ones in every weather."""

    row: Row
    cluster: Cluster
    folder: Path
    emulation: Emulation

    def cases(self) -> list[dict]:
        exact = [self._exact(seed) for seed in _SEEDS]
        cases = product(_STALE, _WEATHERS.items())
        return [self._case(variant, name, weather, exact) for variant, (name, weather) in cases]

    def _case(self, variant: str, name: str, weather: SleepWeather, exact: list[Trace]) -> dict:
        plan = self._stale_plan(variant, name, weather)
        stale = [self._stale(plan, name, seed, trace) for seed, trace in zip(_SEEDS, exact)]
        exact_shares, stale_shares = ([trace.accuracy["test"] for trace in traces] for traces in (exact, stale))
        gaps_pct = [100 * (theirs - ours) for theirs, ours in zip(exact_shares, stale_shares)]
        partial = plan.partial
        assert partial is not None
        return {
            "weather": name,
            "variant": plan.job.name,
            "exact": exact_shares,
            "stale": stale_shares,
            "gaps_pct": gaps_pct,
            "gap_pct": float(np.mean(gaps_pct)),
            "worst_seed_gap_pct": max(gaps_pct),
            "alpha": partial.alpha,
            "max_staleness": partial.max_staleness,
            "mean_members": float(np.mean([trace.num_members for trace in stale])),
            "oldest": max(max(trace.oldest) for trace in stale),
        }

    def _exact(self, seed: int) -> Trace:
        path = self.folder / slug(self.row.name) / "exact" / "plan.json"
        plan = self._planned(ALL_COMMUNICATED, TrainingSpec(epochs=_EPOCHS), path)
        return self._trained(with_training(plan, seed=seed), path.with_name(f"seed_{seed}.json"))

    def _stale_plan(self, variant: str, name: str, weather: SleepWeather) -> Plan:
        training = TrainingSpec(epochs=_EPOCHS, weather=weather)
        path = self.folder / slug(self.row.name) / slug(f"{variant}, {name}") / "plan.json"
        return self._planned(variant, training, path)

    def _stale(self, plan: Plan, name: str, seed: int, exact: Trace) -> Trace:
        """Sleeps as long as planned in epochs, in those that were measured of exact training."""
        weather = plan.job.training.weather
        assert isinstance(weather, SleepWeather)
        sleep_s = weather.seconds(exact.median_epoch_s)
        slept = weather.model_copy(update={"sleep_epochs": None, "sleep_s": sleep_s, "seed": seed})
        path = self.folder / slug(self.row.name) / slug(f"{plan.job.name}, {name}") / f"seed_{seed}.json"
        return self._trained(with_training(plan, seed=seed, weather=slept), path)

    def _planned(self, variant: str, training: TrainingSpec, path: Path) -> Plan:
        if path.exists():
            return Plan.load(path)
        return api.plan(
            on_all(self.row.job(variant, training), self.cluster), self.cluster, path, graph=loaded(self.row.graph)
        )

    def _trained(self, plan: Plan, path: Path) -> Trace:
        """The kept trace of a plan's run, or a new one; the plan's partition lies beside `path`."""
        kept = path.with_suffix(".measured.json")
        if not kept.exists():
            plan.save(path)
            with started_fast(*self.emulation) as limit:
                graph = loaded(self.row.graph)
                trace = api.run(path, path.parent / "run", graph=graph, timeout_s=600.0, on_event=limit)
            trace.save(kept)
            shown = f"{trace.accuracy['test']:.2%} right, {trace.mean_epoch_s * 1e3:.0f} ms an epoch"
            print(f"{self.row.name}, {path.parent.name}, {path.stem}: {shown}", flush=True)
        return Trace.load(kept)
