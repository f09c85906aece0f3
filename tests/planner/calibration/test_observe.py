"""What a measured trace shows of the tasks its plan is lowered to: their seconds, waiting left out."""

import pytest

from gnnplan.planner.calibrate import calibrate
from gnnplan.planner.calibration.observe import CLOCK_S, family, observe, with_profiles
from gnnplan.planner.lowering import lower_plan
from tests.planner.calibration.runs import (
    OVERHEAD_S,
    corrections,
    cpu_profile,
    factors_of,
    measured,
    plan_of,
    profiles_in,
)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A folder with two profiles, `here` and `there`."""
    return profiles_in(tmp_path_factory.mktemp("profiles"))


@pytest.fixture(scope="module")
def plan(folder):
    """For two workers that compute nothing beside their exchanges."""
    return plan_of(folder, "gcn", overlap=False)


@pytest.mark.parametrize(
    ("collective", "wanted"),
    [
        ("all_reduce", "all_reduce"),
        ("all_to_all", "all_to_all"),
        ("all_to_all_port", "all_to_all"),
        ("all_to_all_pair", "all_to_all"),
        ("all_to_all2", "all_to_all2"),
    ],
)
def test_tables_of_one_collective_are_a_family(collective, wanted):
    """By the whole words that their names begin with."""
    assert family(collective) == wanted


def test_every_task_that_takes_time_is_a_sample(plan):
    """Of a run that went as predicted: one a worker, or one for all where they meet, and all make sense at once."""
    seen = observe(plan, measured(plan, wait_s=1e-3), {})
    tasks = [task for task in lower_plan(plan).tasks if sum(seconds for _, seconds in task.parts) >= CLOCK_S]
    assert list(seen.compute) == ["here"]
    assert len(seen.compute["here"]) == sum(task.category == "compute" for task in tasks)
    assert len(seen.collectives) == sum(task.category == "communicate" and task.worker == 0 for task in tasks)
    for sample in (*seen.compute["here"], *seen.collectives):
        assert sample.measured_s == pytest.approx(sum(sample.parts.values()))
        assert sample.now_s == pytest.approx(sample.measured_s)
        assert 0 < sample.weight < 1
    assert {name for sample in seen.collectives for name in sample.parts} == {"all_reduce", "all_to_all"}
    assert seen.overheads_s["here"] == pytest.approx([OVERHEAD_S] * 2, rel=1e-3)


def test_an_epoch_that_went_wrong_changes_nothing(plan):
    """Medians over epochs are taken, of the seconds of tasks as of what lies between them."""
    trace = measured(plan)
    spans = list(trace.spans)
    late = next(index for index, span in enumerate(spans) if span.epoch == 3 and span.task == "loss")
    spans[late] = spans[late].model_copy(update={"end_s": spans[late].end_s + 1.0})
    assert observe(plan, trace.model_copy(update={"spans": tuple(spans)}), {}) == observe(plan, trace, {})


def test_the_mean_of_a_collective_counts(plan):
    """Where two epochs in seven wait for a core: more than the median, and an epoch that went wrong is left out."""
    trace = measured(plan)

    def reduced_s(later_s):
        spans = [
            span.model_copy(update={"end_s": span.end_s + later_s.get(span.epoch, 0.0)})
            if span.task == "reduce"
            else span
            for span in trace.spans
        ]
        seen = observe(plan, trace.model_copy(update={"spans": tuple(spans)}), {})
        return next(sample.measured_s for sample in seen.collectives if "all_reduce" in sample.parts)

    usual_s = reduced_s({})
    assert reduced_s({2: 5e-3, 4: 5e-3}) == pytest.approx(usual_s + 5e-3 / 5, rel=1e-6)
    assert reduced_s({3: 1.0}) == pytest.approx(usual_s, rel=1e-6)


def test_who_receives_less_does_not_count(plan):
    """A member that ends an exchange at half its time in every epoch; one that is sometimes late counts half of it."""
    trace = measured(plan)

    def taken_s(change):
        spans = [change(span) if span.task == "reduce" else span for span in trace.spans]
        seen = observe(plan, trace.model_copy(update={"spans": tuple(spans)}), {})
        return next(sample.measured_s for sample in seen.collectives if "all_reduce" in sample.parts)

    def half(span):
        end_s = (span.start_s + span.end_s) / 2 if span.worker else span.end_s
        return span.model_copy(update={"end_s": end_s})

    def late(span):
        jitter_s = 0.1 * (span.end_s - span.start_s) * ((span.epoch + span.worker) % 2)
        return span.model_copy(update={"end_s": span.end_s + jitter_s})

    usual_s = taken_s(lambda span: span)
    assert taken_s(half) == pytest.approx(usual_s, rel=1e-6)
    assert taken_s(late) == pytest.approx(1.05 * usual_s, rel=0.01)


def test_what_no_epoch_has_whole_is_no_sample(plan):
    """A task without spans, and a collective that one of its members is never in."""
    trace = measured(plan)
    spans = [s for s in trace.spans if s.task != "loss" and (s.task, s.worker) != ("reduce", 1)]
    whole, less = observe(plan, trace, {}), observe(plan, trace.model_copy(update={"spans": tuple(spans)}), {})
    assert len(less.compute["here"]) == len(whole.compute["here"]) - 2
    assert len(less.collectives) == len(whole.collectives) - 1
    assert not any("loss" in sample.parts for sample in less.compute["here"])


def test_corrected_profiles_change_the_prediction_alone(plan):
    """Factors are of what the plan's own profiles say, however often they were corrected meanwhile."""
    trace, profile = measured(plan), plan.placement.profile_of(0)
    slower = {name: twice(table) for name, table in profile.operators.items()}
    changes = {"operators": slower, "step_overhead_s": 2 * profile.step_overhead_s}
    before, after = observe(plan, trace, {}), observe(plan, trace, {"here": profile.model_copy(update=changes)})
    for ours, theirs in zip(before.compute["here"], after.compute["here"], strict=True):
        assert (theirs.parts, theirs.measured_s, theirs.weight) == (ours.parts, ours.measured_s, ours.weight)
        assert theirs.now_s == pytest.approx(2 * ours.now_s)


def twice(table):
    """An operator that takes twice as long."""
    points = tuple(point.model_copy(update={"median_s": 2 * point.median_s}) for point in table.points)
    return table.model_copy(update={"points": points})


def test_profiles_are_replaced_by_their_names(folder):
    """One that the plan does not have is of no effect, and none is the plan as it is."""
    plan = plan_of(folder, "gcn", hosts=(("here", 1), ("there", 1)))
    free = cpu_profile(host_overhead_s=0.0)
    changed = with_profiles(plan, {"here": free, "nowhere": free}).placement
    overheads_s = {changed.profile_of(worker).name: changed.profile_of(worker).host_overhead_s for worker in range(2)}
    assert overheads_s == {"here": 0.0, "there": 2 * OVERHEAD_S}
    assert with_profiles(plan, {}) == plan


@pytest.mark.long
@pytest.mark.parametrize("wait_s", [0.0, 1e-4, 1e-1])
def test_waiting_in_a_collective_is_not_counted(wait_s, folder):
    """However long the others wait for the last one, its own span is what the collective takes."""
    plan = plan_of(folder, "sage")
    factors = {"all_reduce": 1.5, "all_to_all": 0.7, "all_to_all_port": 0.7}
    found = calibrate([(plan, measured(plan, factors, wait_s=wait_s))]).profiles["here"]
    assert factors_of(found)["all_reduce"] == pytest.approx(1.5, rel=0.02)
    assert factors_of(found)["all_to_all"] == pytest.approx(0.7, rel=0.02)


@pytest.mark.long
def test_gpus_keep_their_overhead_and_short_tasks_say_nothing(tmp_path):
    """Launches run ahead, so gaps are not launches; what is shorter than its launch lasts as long as that."""
    cpu_profile(device_kind="cuda", host_overhead_s=1.0).save(tmp_path / "here.json")
    plan = plan_of(tmp_path, "gcn")
    profile = calibrate([(plan, measured(plan, {"spmm": 2.0}))]).profiles["here"]
    assert set(factors_of(profile)) == {"all_reduce", "all_to_all"}
    assert profile.host_overhead_s == 1.0


@pytest.mark.long
def test_epochs_that_reuse_halo_rows_do_not_mislead(folder):
    """A stale plan's run, as predicted but for one slower operator, gives that factor alone, and the same overhead."""
    plan = plan_of(folder, "gcn", interval=3)
    assert plan.fidelity == "stale(3)"
    profile = calibrate([(plan, measured(plan, {"spmm": 2.0}))]).profiles["here"]
    found = {name: correction.factor for name, correction in corrections(profile).items()}
    assert found.pop("spmm") == pytest.approx(2.0, rel=0.05)
    assert found == pytest.approx(dict.fromkeys(found, 1.0), rel=0.05)
