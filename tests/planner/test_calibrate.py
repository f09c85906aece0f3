"""Calibration finds hidden factors in measured traces, and changes nothing that went as predicted."""

import io
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from rich.console import Console

from gnnplan.planner.calibrate import HOST_OVERHEAD, calibrate, load_run
from gnnplan.planner.costs import STEP_OVERHEAD
from gnnplan.planner.lowering import lower_plan
from gnnplan.planner.report.tables import calibration_table
from gnnplan.planner.simulator.steady import play_epochs
from gnnplan.planner.training_spec import TrainingSpec
from gnnplan.planner.weather.model import SleepWeather
from gnnplan.profiles.catalog import catalog_profile
from gnnplan.profiles.errors import UserError
from gnnplan.profiles.machine import CpuQuota, MachineProfile, SharedMachine
from tests.planner.calibration.runs import (
    COLLECTIVES,
    OVERHEAD_S,
    collective_tables,
    corrections,
    cpu_profile,
    factors_of,
    measured,
    plan_of,
    profiles_in,
)

KINDS = ["gcn", "sage", "gat", "gin", "tagcn"]
# Every model at widths of its own: operators then meet in different proportions.
SHOWN = [(kind, 16 * (2 + place), 12 + 20 * place) for place, kind in enumerate(KINDS)]
NEVER_MUCH = ("add",)  # at most 4% of any task of these, too little to be told from noise
ONE_TASK = ("optimizer_step", STEP_OVERHEAD)  # always together: only their sum shows
HELD_OUT = [("sage", 96, 64), ("gcn", 48, 24)]


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A folder with two profiles, `here` and `there`."""
    return profiles_in(tmp_path_factory.mktemp("profiles"))


def median_s(profile, operator, point=0):
    """Seconds of one point of a table."""
    return profile.operators[operator].points[point].median_s


def hidden_factors(low=0.5, high=2.0):
    """Some factor for every operator and collective."""
    names = sorted({*catalog_profile("t4").operators, *COLLECTIVES, STEP_OVERHEAD} - {"all_to_all_port"})
    values = st.lists(st.floats(low, high), min_size=len(names), max_size=len(names))
    return values.map(lambda drawn: dict(zip(names, drawn)) | {"all_to_all_port": drawn[names.index("all_to_all")]})


@pytest.mark.long
@pytest.mark.parametrize("kind", KINDS)
def test_what_went_as_predicted_does_not_change(kind, folder):
    """Waiting and predicted overheads are no reason to correct anything; nanoseconds are rounded."""
    plan = plan_of(folder, kind, overlap=False)  # beside computing, waiting is told from an exchange to 2% only
    profile = calibrate([(plan, measured(plan, wait_s=1e-3))]).profiles["here"]
    assert factors_of(profile) == pytest.approx(dict.fromkeys(factors_of(profile), 1.0), abs=1e-4)
    assert {"matmul_forward", "all_reduce", "all_to_all", HOST_OVERHEAD} <= set(factors_of(profile))
    assert all(correction.error_before < 1e-4 for correction in profile.corrections)
    before = plan.placement.profile_of(0)
    for name, table in profile.operators.items():
        for ours, theirs in zip(table.points, before.operators[name].points, strict=True):
            assert ours.median_s == pytest.approx(theirs.median_s, rel=1e-4)


@pytest.mark.long
@settings(max_examples=3, deadline=None)
@given(hidden=hidden_factors(), seed=st.integers(0, 99))
def test_hidden_factors_are_found(hidden, seed, folder):
    """From five noisy runs, every operator's factor to some percent, and all errors fall to the noise."""
    plans = [plan_of(folder, *what, overlap=False) for what in SHOWN]  # the made-up traces do one thing after another
    runs = [(plan, measured(plan, hidden, noise=0.05, wait_s=1e-4, seed=seed)) for plan in plans]
    profile = calibrate(runs).profiles["here"]
    found = {name: c for name, c in corrections(profile).items() if name not in (HOST_OVERHEAD, *NEVER_MUCH, *ONE_TASK)}
    for name, correction in found.items():
        assert correction.factor == pytest.approx(hidden[name], rel=0.15), name
        assert correction.error_after < 0.06
    typical = [abs(correction.factor / hidden[name] - 1) for name, correction in found.items()]
    assert np.median(typical) < 0.03


@pytest.mark.long
@settings(max_examples=3, deadline=None)
@given(hidden=hidden_factors(), seed=st.integers(0, 99))
def test_plans_that_were_not_run_are_predicted_better(hidden, seed, folder, tmp_path_factory):
    """The same jobs planned on the new profile take about what the hidden machine takes."""
    runs = [(plan, measured(plan, hidden, noise=0.05, seed=seed)) for plan in (plan_of(folder, *s) for s in SHOWN)]
    new = calibrate(runs).profiles["here"]
    for what in HELD_OUT:
        plan = plan_of(folder, *what)
        better = with_profile(plan, new)
        before_s, after_s, true_s = busy_s(plan), busy_s(better), busy_s(plan, hidden)
        assert abs(after_s / true_s - 1) < max(0.05, 0.5 * abs(before_s / true_s - 1))


def with_profile(plan, profile):
    """The same plan predicted by another version of its one profile."""
    (key,) = plan.placement.profiles
    placement = plan.placement.model_copy(update={"profiles": {key: profile}})
    return plan.model_copy(update={"placement": placement})


def busy_s(plan, factors=None):
    """Seconds of all operators and collectives of an epoch."""
    factors = factors or {}
    return sum(seconds * factors.get(name, 1.0) for task in lower_plan(plan).tasks for name, seconds in task.parts)


@pytest.mark.long
@settings(max_examples=5, deadline=None)
@given(overhead_s=st.floats(1e-7, 1e-3))
def test_host_overhead_is_what_lies_between_tasks(overhead_s, folder):
    """Whatever the operators take; unlike theirs, its factor has no bounds."""
    plan = plan_of(folder, "gcn")
    profile = calibrate([(plan, measured(plan, {"spmm": 2.0}, overhead_s=overhead_s))]).profiles["here"]
    assert profile.host_overhead_s == pytest.approx(overhead_s, rel=1e-3)
    correction = corrections(profile)[HOST_OVERHEAD]
    assert correction.factor == pytest.approx(overhead_s / OVERHEAD_S, rel=1e-3)
    assert correction.error_before == pytest.approx(abs(OVERHEAD_S / overhead_s - 1), rel=1e-2, abs=1e-3)
    assert correction.error_after < 1e-3


def test_host_overhead_beside_hosts_that_rest(folder):
    """What a profile has is of hosts that all compute: what went as predicted leaves it as it is."""
    plan = plan_of(folder, "gcn")
    ((_, profile),) = plan.placement.profiles.items()
    shared = SharedMachine(name="m", num_hosts=4, alone_share=0.7)
    plan = with_profile(plan, profile.model_copy(update={"shared_machine": shared, "session": "s"}))
    found = calibrate([(plan, measured(plan, {}, overhead_s=0.7 * OVERHEAD_S))]).profiles["here"]
    assert found.host_overhead_s == pytest.approx(OVERHEAD_S, rel=1e-3)


def test_a_step_overhead_is_scaled_once(folder):
    """It is a part of the optimizer's task as its operator is: together they take what was measured."""
    plan = plan_of(folder, "gcn")
    overhead_s = plan.placement.profile_of(0).step_overhead_s
    profile = calibrate([(plan, measured(plan, {STEP_OVERHEAD: 1.5}))]).profiles["here"]
    assert profile.step_overhead_s == pytest.approx(1.5 * overhead_s, rel=0.1)
    before_s, after_s = optimizer_s(plan), optimizer_s(with_profile(plan, profile))
    assert after_s == pytest.approx(before_s + 0.5 * overhead_s, rel=0.02)


def optimizer_s(plan):
    """Predicted seconds of the optimizer's task."""
    return next(task.seconds for task in lower_plan(plan).tasks if task.key == "optimizer")


def test_an_overhead_of_nothing_can_be_calibrated(folder, tmp_path):
    """A profile without any gets one, and one that is not there is nearly taken away."""
    cpu_profile(host_overhead_s=0.0).save(tmp_path / "here.json")
    plan = plan_of(tmp_path, "gcn")
    assert calibrate([(plan, measured(plan))]).profiles["here"].host_overhead_s == pytest.approx(OVERHEAD_S, rel=1e-3)
    plan = plan_of(folder, "gcn")
    assert calibrate([(plan, measured(plan, overhead_s=0.0))]).profiles["here"].host_overhead_s <= 1e-9


def test_all_tables_of_a_collective_are_scaled(folder):
    """Ports are the all-to-all's, and keep their proportion to it."""
    plan = plan_of(folder, "gcn")
    hidden = {"all_to_all": 2.0, "all_to_all_port": 2.0}
    profile = calibrate([(plan, measured(plan, hidden))]).profiles["here"]
    before = plan.placement.profile_of(0).collectives
    ratio = {
        old.collective: {new.table.points[i].median_s / old.table.points[i].median_s for i in range(3)}
        for new, old in zip(profile.collectives, before, strict=True)
    }
    assert min(ratio["all_to_all"]) == pytest.approx(max(ratio["all_to_all_port"]))
    assert min(ratio["all_to_all"]) == pytest.approx(2.0, rel=0.02)
    assert min(ratio["all_reduce"]) == pytest.approx(1.0)


def test_each_profile_has_factors_of_its_own(folder):
    """Two hosts, one slow at matrices and one at sparse ones; links hold no tables, so collectives stay."""
    plan = plan_of(folder, "gcn", 64, 32, (("here", 1), ("there", 1)))
    hidden = {("here", "matmul_forward"): 2.0, ("there", "spmm"): 3.0}
    found = calibrate([(plan, measured(plan, hidden, overhead_s=2 * OVERHEAD_S))]).profiles
    here, there = factors_of(found["here"]), factors_of(found["there"])
    assert here["matmul_forward"] == pytest.approx(2.0, rel=0.1)  # the ridge: links take most of this epoch
    assert there["matmul_forward"] == pytest.approx(1.0, abs=1e-3)
    assert here["spmm"] == pytest.approx(1.0, abs=1e-3)
    assert there["spmm"] == pytest.approx(3.0, rel=0.1)
    assert here[HOST_OVERHEAD] == pytest.approx(2.0, rel=1e-3)
    assert there[HOST_OVERHEAD] == pytest.approx(1.0, rel=1e-3)
    assert not {"all_reduce", "all_to_all"} & (set(here) | set(there))


def simulated_s(plan):
    """Seconds of every task in a simulated epoch, by (key, worker)."""
    schedule = lower_plan(plan)
    epochs = play_epochs(schedule)
    spent_s = np.median((epochs.end_ns - epochs.start_ns) / 1e9, 0).tolist()
    return {(task.key, task.worker): seconds for task, seconds in zip(schedule.tasks, spent_s, strict=True)}


def exchanges_of(plan):
    """(key, worker) of every exchange, at worker 0."""
    return [(t.key, 0) for t in lower_plan(plan).tasks if t.worker == 0 and [p[0] for p in t.parts] == ["all_to_all"]]


def limited_plan(folder, **limits):
    """A plan for two workers whose exchanges cost as much processor time as they take."""
    cpu_profile(collectives=collective_tables(charged=True), **limits).save(folder / "here.json")
    return plan_of(folder, "gcn", overlap=False)


def test_exchanges_held_up_by_a_quota_are_corrected(tmp_path):
    """Of half the processor they take twice their seconds: what lasts 1.2 times as long is simulated to afterwards."""
    plan = limited_plan(tmp_path, cpu_quota=CpuQuota(share=0.5, period_s=1e-6))
    before_s = simulated_s(plan)
    tasks = {(task.key, task.worker): task for task in lower_plan(plan).tasks}
    pace = {at: before_s[at] / task.seconds for at, task in tasks.items() if task.seconds}
    exchanges = exchanges_of(plan)
    assert exchanges
    assert all(pace[at] > 1.4 for at in exchanges)
    profile = calibrate([(plan, measured(plan, dict.fromkeys(COLLECTIVES, 1.2), pace=pace))]).profiles["here"]
    after_s = simulated_s(with_profile(plan, profile))
    for at in exchanges:
        assert after_s[at] == pytest.approx(1.2 * before_s[at], rel=0.04)
    found = corrections(profile)["all_to_all"]
    assert found.factor == pytest.approx(1.2, rel=0.02)
    assert found.error_before == pytest.approx(1 - 1 / 1.2, rel=1e-3)
    replayed = np.mean([abs(after_s[at] / (1.2 * before_s[at]) - 1) for at in exchanges])
    assert found.error_after == pytest.approx(replayed, abs=1e-6)


@pytest.mark.long
@pytest.mark.parametrize("quota", [None, CpuQuota(share=0.5, period_s=1e-6)], ids=["no quota", "quota"])
def test_processor_seconds_are_scaled_where_a_quota_limits_them(quota, tmp_path):
    """Elsewhere a slower link is no more work."""
    plan = limited_plan(tmp_path, cpu_quota=quota)
    pace = {at: 2.0 for at in exchanges_of(plan)} if quota else {}
    profile = calibrate([(plan, measured(plan, dict.fromkeys(COLLECTIVES, 1.5), pace=pace))]).profiles["here"]
    before, factor = plan.placement.profile_of(0).collectives, factors_of(profile)["all_to_all"]
    assert factor > 1.2
    for old, new in zip(before, profile.collectives, strict=True):
        if old.collective == "all_to_all":
            assert new.table.points[1].median_s == pytest.approx(factor * old.table.points[1].median_s)
            charge_s = old.processor.points[1].median_s * (factor if quota else 1.0)
            assert new.processor.points[1].median_s == pytest.approx(charge_s)


def test_operators_never_seen_keep_their_tables(folder):
    """GCN shows no attention."""
    plan = plan_of(folder, "gcn")
    profile = calibrate([(plan, measured(plan, {"spmm": 2.0}))]).profiles["here"]
    assert profile.operators["weigh"] == plan.placement.profile_of(0).operators["weigh"]
    assert "weigh" not in factors_of(profile)
    old = plan.placement.profile_of(0).operators["spmm"].points[0]
    new = profile.operators["spmm"].points[0]
    factor = factors_of(profile)["spmm"]
    assert (new.median_s, new.spread_s) == pytest.approx((old.median_s * factor, old.spread_s * factor))
    assert (new.shape, new.repeats, new.provenance) == (old.shape, old.repeats, old.provenance)


@pytest.mark.long
def test_factors_compose(folder, tmp_path):
    """A calibrated profile that is right stays, and one that the machine left behind scales again."""
    plan = plan_of(folder, "sage")
    first = calibrate([(plan, measured(plan, {"spmm": 2.0}))]).profiles["here"]
    first.save(tmp_path / "here.json")
    again = plan_of(tmp_path, "sage")
    runs = [(again, measured(again, {"spmm": 1.5}, wait_s=1e-4, seed=seed)) for seed in (1, 2)]
    second = calibrate(runs).profiles["here"]
    assert factors_of(second)["spmm"] == pytest.approx(1.5, rel=0.02)
    assert median_s(second, "spmm") == pytest.approx(3.0 * median_s(plan.placement.profile_of(0), "spmm"), rel=0.04)
    assert second.based_on == first.fingerprint()
    assert first.based_on == plan.placement.profile_of(0).fingerprint()
    assert second.note.endswith("; calibrated on 1 run; calibrated on 2 runs")


def test_calibrated_profiles_are_saved_and_loaded(folder, tmp_path):
    """What changed stands in the file."""
    plan = plan_of(folder, "gin")
    profile = calibrate([(plan, measured(plan, {"add": 2.0}, noise=0.1))]).profiles["here"]
    assert MachineProfile.load(profile.save(tmp_path / "new.json")) == profile
    assert profile.corrections


def test_residuals_are_the_errors_that_remain(folder):
    """One for each task, their mean size is the error after."""
    plan = plan_of(folder, "gat")
    calibration = calibrate([(plan, measured(plan, {"weigh": 2.0}, noise=0.1))])
    residuals = calibration.residuals["here"]
    for correction in calibration.profiles["here"].corrections:
        assert len(residuals[correction.operator]) == correction.num_samples
        assert np.mean(np.abs(residuals[correction.operator])) == pytest.approx(correction.error_after)
    assert set(residuals) == set(factors_of(calibration.profiles["here"]))


@pytest.mark.long
def test_bad_input_is_named(folder, tmp_path):
    """Which run, and what is wrong with it."""
    plan = plan_of(folder, "gcn")
    trace = measured(plan)
    with pytest.raises(UserError, match="no runs"):
        calibrate([])
    with pytest.raises(UserError, match="run 2: the same run as run 1"):
        calibrate([(plan, trace), (plan, trace.model_copy())])
    with pytest.raises(UserError, match="run 2: the trace holds no traced epochs"):
        calibrate([(plan, trace), (plan, trace.model_copy(update={"spans": ()}))])
    with pytest.raises(UserError, match="demo: the trace belongs to plan 0000"):
        calibrate([(plan, trace.model_copy(update={"plan_fingerprint": "0" * 16}))], ["demo"])
    with pytest.raises(UserError, match="run 1: calibrate needs a measured trace"):
        calibrate([(plan, trace.model_copy(update={"origin": "predicted"}))])
    stranger = trace.spans[0].model_copy(update={"worker": 2})
    sleeps = plan.model_copy(
        update={"job": plan.job.model_copy(update={"training": TrainingSpec(weather=SleepWeather())})}
    )
    slept = trace.model_copy(update={"plan_fingerprint": sleeps.fingerprint()})
    with pytest.raises(UserError, match="run 1: runs under weather or partial reduce"):
        calibrate([(sleeps, slept)])
    with pytest.raises(UserError, match="run 1: the trace has spans of workers"):
        calibrate([(plan, trace.model_copy(update={"spans": (*trace.spans, stranger)}))])
    cpu_profile(step_overhead_s=1.0).save(tmp_path / "here.json")
    other = plan_of(tmp_path, "gcn")
    with pytest.raises(UserError, match=r"run 2: profile .here. is .*, in run 1 it is"):
        calibrate([(plan, trace), (other, measured(other))])


def test_a_run_is_loaded_from_its_folder(folder, tmp_path):
    """`plan.json` and `measured.json`, as `gnnplan run` leaves them."""
    plan = plan_of(folder, "gcn")
    plan.save(tmp_path / "plan.json")
    with pytest.raises(UserError, match=r"measured.json: no such file"):
        load_run(tmp_path)
    trace = measured(plan)
    trace.save(tmp_path / "measured.json")
    assert load_run(Path(tmp_path)) == (plan, trace)


def test_the_table_begins_with_the_largest_change(folder):
    """Halves and doubles count alike."""
    plan = plan_of(folder, "gcn")
    profile = calibrate([(plan, measured(plan, {"spmm": 1.5, "loss": 0.4}))]).profiles["here"]
    console = Console(width=200, record=True, file=io.StringIO())
    console.print(calibration_table(profile))
    text = console.export_text()
    assert "calibrated on 1 run" in text
    places = [text.index(f" {name} ") for name in ("loss", "spmm", "matmul_forward")]
    assert places == sorted(places)
