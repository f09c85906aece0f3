"""The chosen plan's epoch against the best of a grid: every subset of the hosts, in every family, all of them run.

Of subsets that differ only by which of some equal hosts they have one is run.

Regret is how many times longer the chosen plan's epoch is than the grid's best one, less 1. Ratios are taken round by
round, and their median counts. A plan that is far behind in some rounds is not run again. A family is hit
where the best plan is of the chosen one's, or where the best plan is faster by no more than the rounds can tell: twice
the standard error of the median ratio, or 2% where that is less. By the same measure the chosen plan is no slower than
the best one on one host.

A setting is kept when all its runs have ended, and is not run again while it is the same. Where rounds differ by so
much that the ratio to the best plan is known to no better than a quarter, they were disturbed: then the setting is
planned and run anew, three times in all at most. Within a setting every run that has ended is kept in `out`, as is the
profile of its cluster, for an hour: a machine does not stay as it was, and plans of an older profile are made and run
anew. `missing` names what is left. The quick form plans on two devices of the catalog, and has epochs of the simulator
in place of runs.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from shutil import rmtree
from tempfile import TemporaryDirectory

import numpy as np

from benchmarks._common import OUT, why_absent
from benchmarks._emulated import MAX_TRIES, inside, profiled
from benchmarks._planner_runs import CHOSEN, Planned, Run, measured, median_epoch_s, on_hosts, planned, simulated
from benchmarks._planner_settings import LONG_PERIODS, NUM_ROUNDS, ONE_HOST, Setting, clusters, settings_on
from benchmarks._planner_shadow import worst_shadow_error
from benchmarks._results import about, keep, kept_parts, record_of
from gnnplan.planner.cluster import Cluster
from gnnplan.planner.emulation import kernel
from gnnplan.planner.plan import Plan
from gnnplan.planner.sound_plan import load_plan

_FILE = "planner"
_LEAST_NOISE = 0.02  # of a ratio
_MOST_NOISE, _MOST_TRIES = 0.25, 3
_ENDED = "ended"  # file that a setting has whose row was made
_OF_MEDIAN = 1.2533  # times the standard error of a mean, for normal ratios


def main(quick: bool) -> dict:
    """Runs the settings that have not run; the quick form runs nothing, and keeps nothing."""
    of = {each.name: each for name in clusters(quick) for each in _present(name, quick)}
    prints = {name: each.fingerprint() for name, each in of.items()}
    rows = {} if quick else kept_parts(_FILE, "rows", "setting", prints)
    disturbed = {name: row.get("tries", 1) for name, row in rows.items() if is_disturbed(row)}
    rows = {name: row for name, row in rows.items() if name not in disturbed}
    for name, cluster in clusters(quick).items():
        missing = [each for each in of.values() if each.cluster == name and each.name not in rows]
        found = _in_short(cluster, missing) if quick else _on(cluster, missing, OUT / _FILE / name)
        for row in found:
            setting = row["setting"]
            told = {"cluster": name, "settings": prints[setting], "tries": 1 + disturbed.get(setting, 0)}
            rows[setting] = row | told | about()
            if not quick:
                keep(_FILE, record_of(_FILE, summary(rows, list(of))))
    return summary(rows, list(of))


def is_disturbed(row: Mapping) -> bool:
    """Whether a setting has to be run again."""
    return row["noise"] > _MOST_NOISE and row.get("tries", 1) < _MOST_TRIES


def _present(cluster: str, quick: bool) -> list[Setting]:
    return [each for each in settings_on(cluster, quick) if not why_absent(each.name, each.job.graph)]


def _in_short(cluster: Cluster, settings: Sequence[Setting]) -> Iterator[dict]:
    with TemporaryDirectory(prefix="gnnplan-planner-") as folder:
        for each in settings:
            yield _row(each, cluster, Path(folder), 1, simulated)


def _on(cluster: Cluster, settings: Sequence[Setting], folder: Path) -> Iterator[dict]:
    """Rows as they come, on hosts that are brought up where any is missing."""
    if not settings:
        return
    with _periods(cluster.name), inside(cluster) as emulation:
        run = on_hosts(emulation, MAX_TRIES)
        for each in settings:
            yield _row(each, profiled(cluster, folder), folder, NUM_ROUNDS, run)


@contextmanager
def _periods(cluster: str) -> Iterator[None]:
    """Hosts have their share of processor time in longer periods, where a cluster says so."""
    usual = kernel.CPU_PERIOD_US
    kernel.CPU_PERIOD_US = LONG_PERIODS.get(cluster, usual)
    try:
        yield
    finally:
        kernel.CPU_PERIOD_US = usual


def _row(setting: Setting, cluster: Cluster, folder: Path, num_rounds: int, run: Run) -> dict:
    at = folder / f"{setting.name.replace(' ', '_')}-{setting.fingerprint()}"
    if (at / _ENDED).exists():  # its row was disturbed
        rmtree(at)
    at.mkdir(parents=True, exist_ok=True)
    plans = planned(setting, cluster, at)
    rounds_s = measured(setting, plans, num_rounds, run)
    chosen = load_plan(plans[0].path)
    row = row_of(setting.name, chosen, plans, rounds_s, median_epoch_s(plans[0]))
    row |= {"shadow_error": worst_shadow_error(chosen)}
    print(f"{setting.name}: regret {row['regret']:.1%}, the best is {row['best']}", flush=True)
    (at / _ENDED).touch()
    return row


def row_of(
    name: str, plan: Plan, plans: Sequence[Planned], rounds_s: Mapping[str, Sequence[float]], median_s: float
) -> dict:
    """What a setting came to, but for its shadow prices.

    Args:
        plan: the chosen one.
        plans: it and those of the grid.
        rounds_s: by plan, its mean epochs round by round.
        median_s: the chosen plan's median epoch, which intervals are of.
    """
    families = {each.name: each.family for each in plans}
    ratios = {each: float(np.median(_ratios(rounds_s[CHOSEN], seconds))) for each, seconds in rounds_s.items()}
    best = max(ratios, key=lambda each: ratios[each])
    one = max((each for each, family in families.items() if family == ONE_HOST), key=lambda each: ratios[each])
    noise = {each: _noise(rounds_s[CHOSEN], rounds_s[each]) for each in (best, one)}
    epoch_s, interval, searched = float(np.median(rounds_s[CHOSEN])), plan.prediction.interval, plan.searched
    assert interval is not None
    assert searched is not None
    return {
        "setting": name,
        "regret": ratios[best] - 1,
        "best": best,
        "family": families[CHOSEN],
        "noise": noise[best],
        "is_hit": families[best] == families[CHOSEN] or ratios[best] <= 1 + noise[best],
        "over_one_device": ratios[one],
        "is_no_worse_than_one_device": ratios[one] <= 1 + noise[one],
        "search_gap": plan.prediction.long_run_epoch_s / searched.bound_s - 1,
        "any_plan_gap": plan.prediction.gap,
        "bound_over_best": plan.prediction.bound_s / (epoch_s / ratios[best]),
        "is_in_interval": interval.low_s <= median_s <= interval.high_s,
        "error": plan.prediction.each_of_many_s / epoch_s - 1,
        "plans": [_told(each, rounds_s[each.name]) for each in plans],
    }


def _told(plan: Planned, rounds_s: Sequence[float]) -> dict:
    return {"plan": plan.name, "same_as": plan.same_as, "predicted_s": plan.predicted_s, "rounds_s": list(rounds_s)}


def _ratios(ours: Sequence[float], theirs: Sequence[float]) -> list[float]:
    """Of the rounds that both have."""
    return [our_s / their_s for our_s, their_s in zip(ours, theirs, strict=False)]


def _noise(ours: Sequence[float], theirs: Sequence[float]) -> float:
    """Twice the standard error of the median ratio, as the rounds differ."""
    ratios = _ratios(ours, theirs)
    spread = float(np.std(ratios, ddof=1)) if len(ratios) > 1 else 0.0
    return max(_LEAST_NOISE, 2 * _OF_MEDIAN * spread / len(ratios) ** 0.5)


def summary(found: Mapping[str, dict], names: Sequence[str]) -> dict:
    """The figures of all settings that there are.

    Args:
        found: rows by setting.
        names: of all settings.
    """
    rows = [found[name] for name in names if name in found]

    def of(key: str, figure: Callable = np.mean) -> float:
        return float(figure([row[key] for row in rows]))

    return {
        "settings": len(rows),
        "missing": [name for name in names if name not in found],
        "mean_regret": of("regret"),
        "worst_regret": of("regret", max),
        "family_hits": of("is_hit"),
        "never_worse_than_one_device": all(row["is_no_worse_than_one_device"] for row in rows),
        "median_noise": of("noise", np.median),
        "median_search_gap": of("search_gap", np.median),
        "worst_search_gap": of("search_gap", max),
        "median_any_plan_gap": of("any_plan_gap", np.median),
        "worst_bound_over_best": of("bound_over_best", max),
        "interval_coverage": of("is_in_interval"),
        "mean_error": float(np.mean([abs(row["error"]) for row in rows])),
        "worst_shadow_error": max((each for row in rows if (each := row["shadow_error"]) is not None), default=None),
        "rows": rows,
    }
