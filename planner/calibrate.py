"""From measured traces to a new version of the profiles they were predicted by: one factor per operator."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from planner.calibration.fit import Fit, fit
from planner.calibration.observe import CLOCK_S, Observed, family, observe
from planner.costs import STEP_OVERHEAD
from planner.plan import Plan
from planner.run import MEASURED_FILE
from planner.trace import Trace
from profiles.errors import UserError
from profiles.machine import Correction, MachineProfile, OperatorTable

HOST_OVERHEAD = "host_overhead"


@dataclass(frozen=True)
class Calibration:
    """Calibrated profiles and how well they explain the runs they were calibrated on.

    Args:
        profiles: new versions by profile name; `corrections` say what changed.
        residuals: per profile name and operator (or collective, or `host_overhead`), one value for each
            measured task the operator takes part in: corrected prediction / measured - 1.
    """

    profiles: dict[str, MachineProfile]
    residuals: dict[str, dict[str, tuple[float, ...]]]


def load_run(folder: Path) -> tuple[Plan, Trace]:
    """The plan and the measured trace that `gnnplan run` left in a folder.

    Raises:
        UserError: a file is missing or damaged, or the trace cannot be used for this plan.
    """
    plan, trace = Plan.load(folder / "plan.json"), Trace.load(folder / MEASURED_FILE)
    _check_run(plan, trace, str(folder))
    return plan, trace


def calibrate(runs: Sequence[tuple[Plan, Trace]], names: Sequence[str] = ()) -> Calibration:
    """Scales the tables of the runs' profiles so that lowered plans take what was measured.

    One factor per operator and profile (a step's overhead is one), one per collective over all profiles, and the host
    overhead as measured between tasks. Operators no run shows keep their tables.

    Args:
        runs: plans with the traces measured when they were run, all made from the same profiles.
        names: of the runs in errors (default: `run 1`, `run 2` ...).

    Raises:
        UserError: no runs, a trace of another plan or without traced epochs, or runs of different profiles.
    """
    if not runs:
        raise UserError("calibrate: no runs given")
    names = names or tuple(f"run {number}" for number in range(1, len(runs) + 1))
    for (plan, trace), name in zip(runs, names, strict=True):
        _check_run(plan, trace, name)
    before = _profiles_of([plan for plan, _ in runs], names)
    observed = [observe(plan, trace) for plan, trace in runs]
    collective = fit([sample for run in observed for sample in run.collectives])
    fits = {name: _fits(name, profile, observed, collective) for name, profile in before.items()}
    return Calibration(
        {name: _corrected(profile, fits[name], observed) for name, profile in before.items()},
        {name: {what: found.residuals[what] for what in found.factors} for name, found in fits.items()},
    )


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
    if plan.job.training.weather or plan.decision.is_partial:
        raise UserError(f"{name}: runs under weather or partial reduce do not show what operators take; leave both out")
    if not trace.spans:
        raise UserError(f"{name}: the trace holds no traced epochs; run the plan again with more epochs")
    if any(adjusted.changed for adjusted in trace.adjustments):
        raise UserError(f"{name}: workers made other rows than planned; run a plan without pin.adjust to calibrate")


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


def _fits(name: str, profile: MachineProfile, observed: Sequence[Observed], collective: Fit) -> Fit:
    """All factors of one profile: its operators, the collectives it has tables of, its overhead."""
    fits = [fit([sample for run in observed for sample in run.compute.get(name, ())])]
    # One collective has many members: every profile gets the factor all of them were fitted by.
    fits.append(collective.only({family(entry.collective) for entry in profile.collectives}))
    overheads_s = [seconds for run in observed for seconds in run.overheads_s.get(name, ())]
    if overheads_s:
        fits.append(_overhead_fit(profile.host_overhead_s, overheads_s))
    return Fit.union(fits)


def _overhead_fit(before_s: float, measured_s: Sequence[float]) -> Fit:
    # Both sides are kept above what a clock resolves, so that none at all still has a ratio.
    before_s, measured = max(before_s, CLOCK_S), np.maximum(measured_s, CLOCK_S)
    after_s = float(np.median(measured))
    return Fit(
        {HOST_OVERHEAD: after_s / before_s},
        {HOST_OVERHEAD: tuple((before_s / measured - 1).tolist())},
        {HOST_OVERHEAD: tuple((after_s / measured - 1).tolist())},
    )


def _corrected(profile: MachineProfile, found: Fit, observed: Sequence[Observed]) -> MachineProfile:
    if not found.factors:
        return profile
    of, num_runs = found.factors, sum(profile.name in run.profiles for run in observed)
    overhead_s = profile.host_overhead_s
    if HOST_OVERHEAD in of:
        overhead_s = max(overhead_s, CLOCK_S) * of[HOST_OVERHEAD]
    note = f"calibrated on {num_runs} run{'' if num_runs == 1 else 's'}"
    return profile.model_copy(
        update={
            "operators": {name: _scaled(table, of.get(name, 1.0)) for name, table in profile.operators.items()},
            "collectives": tuple(
                entry.model_copy(update={"table": _scaled(entry.table, of.get(family(entry.collective), 1.0))})
                for entry in profile.collectives
            ),
            "host_overhead_s": overhead_s,
            "step_overhead_s": profile.step_overhead_s * of.get(STEP_OVERHEAD, 1.0),
            "corrections": tuple(_correction(what, found) for what in sorted(of)),
            "based_on": profile.fingerprint(),
            "created": time.strftime("%Y-%m-%d"),
            "note": f"{profile.note}; {note}" if profile.note else note,
        }
    )


def _correction(what: str, found: Fit) -> Correction:
    return Correction(
        operator=what,
        factor=found.factors[what],
        num_samples=len(found.residuals[what]),
        error_before=float(np.mean(np.abs(found.misses_before[what]))),
        error_after=float(np.mean(np.abs(found.residuals[what]))),
    )


def _scaled(table: OperatorTable, factor: float) -> OperatorTable:
    points = tuple(
        point.model_copy(update={"median_s": point.median_s * factor, "spread_s": point.spread_s * factor})
        for point in table.points
    )
    return table.model_copy(update={"points": points})
