"""From measured traces to a new version of the profiles they were predicted by: one factor per operator."""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from gnnplan.planner.calibration.fit import fit
from gnnplan.planner.calibration.observe import CLOCK_S, Observed, family, observe
from gnnplan.planner.costs import STEP_OVERHEAD
from gnnplan.planner.interval.work import work_of
from gnnplan.planner.plan import Plan
from gnnplan.planner.run_files import MEASURED_FILE, PLAN_FILE
from gnnplan.planner.trace import Trace
from gnnplan.profiles.errors import UserError
from gnnplan.profiles.machine import CollectiveTable, Correction, MachineProfile, OperatorTable

HOST_OVERHEAD = "host_overhead"
_MOST_ROUNDS = 3
_SETTLED = 0.005  # of a factor: a change that needs no other round


@dataclass(frozen=True)
class Calibration:
    """Calibrated profiles and how well they explain the runs they were calibrated on.

    Args:
        profiles: new versions by profile name; `corrections` say what changed.
        residuals: per profile name and operator (or collective, or `host_overhead`), one value for each
            measured task the operator takes part in: what the plan, lowered and played again with the new
            profiles, has for it / measured - 1.
    """

    profiles: dict[str, MachineProfile]
    residuals: dict[str, dict[str, tuple[float, ...]]]

    def __repr__(self) -> str:
        tasks = {name: sum(map(len, of.values())) for name, of in self.residuals.items()}
        return f"Calibration({', '.join(f'{name}: by {tasks.get(name, 0)} measured tasks' for name in self.profiles)})"


def load_run(folder: Path) -> tuple[Plan, Trace]:
    """The plan and the measured trace that `gnnplan run` left in a folder.

    Raises:
        UserError: a file is missing or damaged, or the trace cannot be used for this plan.
    """
    plan, trace = Plan.load(folder / PLAN_FILE), Trace.load(folder / MEASURED_FILE)
    _check_run(plan, trace, str(folder))
    return plan, trace


def calibrate(runs: Sequence[tuple[Plan, Trace]], names: Sequence[str] = ()) -> Calibration:
    """Scales the tables of the runs' profiles so that lowered plans take what was measured.

    One factor per operator and profile (a step's overhead is one), one per collective over all profiles, and the host
    overhead as measured between tasks. Operators no run shows keep their tables. Errors after are those of the plans
    lowered and played again.

    Args:
        runs: plans with the traces measured when they were run, all made from the same profiles.
        names: of the runs in errors (default: `run 1`, `run 2` ...).

    Raises:
        UserError: no runs, one given twice, a trace of another plan or without traced epochs, or runs of different
            profiles.
    """
    if not runs:
        raise UserError("calibrate: no runs given")
    names = names or tuple(f"run {number}" for number in range(1, len(runs) + 1))
    for (plan, trace), name in zip(runs, names, strict=True):
        _check_run(plan, trace, name)
    _check_distinct([trace for _, trace in runs], names)
    profiles = _profiles_of([plan for plan, _ in runs], names)
    before = _Round({}, profiles, _observe_all(runs, profiles))
    after = _best_round(runs, before)
    found = {name: _Found(after.factors[name], before.misses(name), after.misses(name)) for name in profiles}
    noted = {}
    for name, profile in profiles.items():
        plans = [plan for plan, _ in runs if name in _names_of(plan)]
        noted[name] = _noted(profile, after.profiles[name], found[name], plans)
    residuals = {name: {what: each.residuals[what] for what in each.factors} for name, each in found.items()}
    return Calibration(noted, residuals)


@dataclass(frozen=True)
class _Round:
    """Profiles corrected by some factors, by profile and operator, and what the runs show beside them."""

    factors: Mapping[str, Mapping[str, float]]
    profiles: Mapping[str, MachineProfile]
    seen: Observed

    def misses(self, name: str) -> dict[str, tuple[float, ...]]:
        """By operator of a profile: predicted / measured - 1 of every task it takes part in."""
        found: dict[str, list[float]] = defaultdict(list)
        for sample in (*self.seen.compute.get(name, ()), *self.seen.collectives):
            for what in sample.parts:
                found[what].append(sample.now_s / sample.measured_s - 1)
        # Both sides are kept above what a clock resolves, so that none at all still has a ratio.
        overhead_s = max(self.profiles[name].host_overhead_s, CLOCK_S)
        for measured_s in self.seen.overheads_s.get(name, ()):
            found[HOST_OVERHEAD].append(overhead_s / max(measured_s, CLOCK_S) - 1)
        return {what: tuple(misses) for what, misses in found.items()}

    @property
    def error(self) -> float:
        """Mean absolute relative error over all tasks, each by its weight."""
        samples = [*self.seen.collectives, *(s for each in self.seen.compute.values() for s in each)]
        weights = [sample.weight for sample in samples]
        misses = [abs(sample.now_s / sample.measured_s - 1) for sample in samples]
        return float(np.average(misses, weights=weights)) if samples else 0.0


@dataclass(frozen=True)
class _Found:
    """Of one profile the factors by operator, and predicted / measured - 1 of their tasks before and after."""

    factors: Mapping[str, float]
    misses_before: Mapping[str, tuple[float, ...]]
    residuals: Mapping[str, tuple[float, ...]]


def _best_round(runs: Sequence[tuple[Plan, Trace]], before: _Round) -> _Round:
    """The factors under which the plans, played again, are nearest to what was measured.

    Under a quota how fast a task is depends on the others, which factors change: so they are found a few times, each
    time at the pace of the plans as they were last corrected.
    """
    tried: list[_Round] = []
    for _ in range(_MOST_ROUNDS):
        last = tried[-1] if tried else before
        factors = _factors(before.profiles, last.seen)
        profiles = {name: _corrected(profile, factors[name]) for name, profile in before.profiles.items()}
        tried.append(_Round(factors, profiles, _observe_all(runs, profiles)))
        if tried[1:] and _is_settled(tried[-2].factors, factors):
            break
    return min(tried, key=lambda each: each.error)


def _is_settled(before: Mapping[str, Mapping[str, float]], after: Mapping[str, Mapping[str, float]]) -> bool:
    pairs = [(before[name].get(what, 1.0), factor) for name, of in after.items() for what, factor in of.items()]
    return all(abs(new / old - 1) <= _SETTLED for old, new in pairs)


def _observe_all(runs: Sequence[tuple[Plan, Trace]], profiles: Mapping[str, MachineProfile]) -> Observed:
    seen = Observed()
    for plan, trace in runs:
        seen.add(observe(plan, trace, profiles))
    return seen


def _check_run(plan: Plan, trace: Trace, name: str) -> None:
    if trace.origin != "measured":
        raise UserError(f"{name}: calibrate needs a measured trace, this one is {trace.origin}; run the plan")
    if trace.plan_fingerprint != plan.fingerprint():
        raise UserError(
            f"{name}: the trace belongs to plan {trace.plan_fingerprint}, not to this one ({plan.fingerprint()}); "
            f"run the plan again"
        )
    if any(span.worker >= plan.num_workers for span in trace.spans):
        raise UserError(f"{name}: the trace has spans of workers the plan does not have; run the plan again")
    if plan.mini_batch is not None:
        raise UserError(f"{name}: stages of mini-batches are in no profile; to correct them, plan the job again")
    if plan.job.training.weather or plan.is_partial:
        raise UserError(f"{name}: runs under weather or partial reduce do not show what operators take; leave both out")
    if not trace.spans:
        raise UserError(f"{name}: the trace holds no traced epochs; run the plan again with more epochs")


def _check_distinct(traces: Sequence[Trace], names: Sequence[str]) -> None:
    """`UserError` where one run is there twice: it would count for two."""
    seen: dict[str, str] = {}
    for trace, name in zip(traces, names):
        digest = trace.fingerprint()
        if digest in seen:
            raise UserError(f"{name}: the same run as {seen[digest]}; give each run once")
        seen[digest] = name


def _profiles_of(plans: Sequence[Plan], names: Sequence[str]) -> dict[str, MachineProfile]:
    """Every profile by its name; `UserError` where two of one name differ."""
    found: dict[str, tuple[str, MachineProfile]] = {}
    for plan, run in zip(plans, names):
        for profile in plan.placement.profiles.values():
            first, other = found.setdefault(profile.name, (run, profile))
            if other != profile and other.fingerprint() != profile.fingerprint():
                raise UserError(
                    f"{run}: profile {profile.name!r} is {profile.fingerprint()}, in {first} it is "
                    f"{other.fingerprint()}; calibrate runs of one version of it at a time"
                )
    return {name: profile for name, (_, profile) in found.items()}


def _names_of(plan: Plan) -> set[str]:
    return {profile.name for profile in plan.placement.profiles.values()}


def _factors(profiles: Mapping[str, MachineProfile], seen: Observed) -> dict[str, dict[str, float]]:
    """Of every profile: its operators', the collectives' it has tables of, and its overhead's."""
    collectives = fit(seen.collectives)
    found = {}
    for name, profile in profiles.items():
        # One collective has many members: every profile gets the factor all of them were fitted by.
        own = {family(entry.collective) for entry in profile.collectives}
        factors = fit(seen.compute.get(name, ()))
        factors |= {what: factor for what, factor in collectives.items() if what in own}
        if overheads_s := seen.overheads_s.get(name):
            measured_s = float(np.median(np.maximum(overheads_s, CLOCK_S)))
            factors[HOST_OVERHEAD] = measured_s / max(profile.host_overhead_s, CLOCK_S)
        found[name] = factors
    return found


def _corrected(profile: MachineProfile, of: Mapping[str, float]) -> MachineProfile:
    """The profile with its tables and overheads multiplied."""
    overhead_s = profile.host_overhead_s
    if HOST_OVERHEAD in of:
        overhead_s = max(overhead_s, CLOCK_S) * of[HOST_OVERHEAD]
    has_quota = profile.cpu_quota is not None
    return profile.model_copy(
        update={
            "operators": {name: _scaled(table, of.get(name, 1.0)) for name, table in profile.operators.items()},
            "collectives": tuple(
                _scaled_collective(entry, of.get(family(entry.collective), 1.0), has_quota)
                for entry in profile.collectives
            ),
            "host_overhead_s": overhead_s,
            "step_overhead_s": profile.step_overhead_s * of.get(STEP_OVERHEAD, 1.0),
        }
    )


def _noted(before: MachineProfile, after: MachineProfile, found: _Found, plans: Sequence[Plan]) -> MachineProfile:
    """The corrected profile with what changed, and by how many runs; the one before where nothing did."""
    if not found.factors:
        return before
    note = f"calibrated on {len(plans)} run{'' if len(plans) == 1 else 's'}"
    works = (work_of(plan.graph.fingerprint, plan.job.model) for plan in plans)
    return after.model_copy(
        update={
            "corrections": tuple(_correction(what, found) for what in sorted(found.factors)),
            "based_on": before.fingerprint(),
            "calibrated_on": tuple(dict.fromkeys([*before.calibrated_on, *works])),
            "created": time.strftime("%Y-%m-%d"),
            "note": f"{before.note}; {note}" if before.note else note,
        }
    )


def _correction(what: str, found: _Found) -> Correction:
    return Correction(
        operator=what,
        factor=found.factors[what],
        num_samples=len(found.residuals[what]),
        error_before=float(np.mean(np.abs(found.misses_before[what]))),
        error_after=float(np.mean(np.abs(found.residuals[what]))),
    )


def _scaled_collective(entry: CollectiveTable, factor: float, has_quota: bool) -> CollectiveTable:
    """Under a quota it lasts until it has had its processor seconds, so these are scaled as well."""
    processor = entry.processor
    if has_quota and processor is not None:
        processor = _scaled(processor, factor)
    return entry.model_copy(update={"table": _scaled(entry.table, factor), "processor": processor})


def _scaled(table: OperatorTable, factor: float) -> OperatorTable:
    points = tuple(
        point.model_copy(update={"median_s": point.median_s * factor, "spread_s": point.spread_s * factor})
        for point in table.points
    )
    return table.model_copy(update={"points": points})
