"""What `planner` says of a setting: regret against the whole grid, families, bounds, and how far prices are off."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from benchmarks import _planner_shadow, planner
from benchmarks._planner_runs import CHOSEN, Planned, family_of, measured
from benchmarks._planner_settings import FAMILIES, ONE_HOST, cells, clusters, job_in, settings_on
from benchmarks._planner_shadow import worst_shadow_error
from benchmarks.planner import row_of, summary
from gnnplan.planner.explain.explain import explain_plan
from tests.planner.explain.explained import plan_on_three

WITHIN = 0.2  # of what was said, as the issue asks
NAMES = {CHOSEN: "rows, sent", "0 one host": ONE_HOST, "0_1 rows": "rows, sent", "0_1 columns": "columns"}


def row(**rounds_s):
    """Of plans that take so long, one number a round."""
    plans = [Planned(name, family, Path("plan.json"), 1.0) for name, family in NAMES.items()]
    found = row_of("setting", plan_on_three(), plans, dict(zip(NAMES, rounds_s.values(), strict=True)), 1.0)
    return found | {"shadow_error": 0.1}


def test_regret_is_of_the_same_round():
    """A slow spell that hits a whole round changes nothing."""
    found = row(chosen=[1.1, 11], one=[2, 20], rows=[1, 10], columns=[3, 30])
    assert found["regret"] == pytest.approx(0.1)
    assert found["best"] == "0_1 rows"
    assert found["is_hit"]
    assert found["over_one_device"] == pytest.approx(0.55)


def test_a_family_is_missed_where_another_is_faster_by_more_than_noise():
    """And one device is beaten or not."""
    missed = row(chosen=[1.1], one=[1.0], rows=[1.1], columns=[3])
    assert not missed["is_hit"]
    assert row(chosen=[1.01], one=[1.0], rows=[1.01], columns=[3])["is_hit"]
    rows = {"a": missed, "b": row(chosen=[1], one=[2], rows=[1], columns=[3])}
    found = summary(rows, ["a", "b", "c"])
    assert found["family_hits"] == 0.5
    assert found["mean_regret"] == pytest.approx(0.05)
    assert found["worst_regret"] == pytest.approx(0.1)
    assert not found["never_worse_than_one_device"]
    assert found["settings"] == 2
    assert found["missing"] == ["c"]


def test_what_rounds_that_differ_cannot_tell_is_no_miss():
    """By twice the standard error of the median ratio: with other numbers round by round, not with the same."""
    same = row(chosen=[1.06] * 4, one=[1.0] * 4, rows=[1.2] * 4, columns=[3])
    differing = row(chosen=[1.2, 0.9, 1.0, 1.15], one=[1.0] * 4, rows=[1.3] * 4, columns=[3])
    assert same["regret"] == pytest.approx(0.06)
    assert not same["is_hit"]
    assert not same["is_no_worse_than_one_device"]
    assert differing["regret"] == pytest.approx(0.075)
    assert differing["is_hit"]
    assert differing["is_no_worse_than_one_device"]
    assert differing["noise"] == pytest.approx(1.2533 * np.std([1.2, 0.9, 1.0, 1.15], ddof=1))


def test_there_are_enough_settings_and_none_twice():
    """Sixty on six clusters."""
    settings = [each for name in clusters(quick=False) for each in settings_on(name, quick=False)]
    assert len(clusters(quick=False)) >= 6
    assert len({each.fingerprint() for each in settings}) == len(settings) >= 60
    changed = replace(settings[0], job=settings[0].job.model_copy(update={"fidelity": "stale"}))
    assert changed.fingerprint() != settings[0].fingerprint()


def test_the_grid_has_every_subset_in_every_family():
    """Seven subsets of three hosts, three of one."""
    grid = list(cells(clusters(quick=False)["uneven"].hosts))
    assert len({each.hosts for each in grid}) == 7
    assert sum(each.family == ONE_HOST for each in grid) == 3
    for family in FAMILIES:
        assert {each.hosts for each in grid if each.family == family} == {(0, 1), (0, 2), (1, 2), (0, 1, 2)}
    assert len({each.name for each in grid}) == len(grid) == 15
    job = job_in(grid[-1], settings_on("even", quick=True)[0])
    assert (job.pin.num_workers, job.pin.techniques) == (3, FAMILIES[grid[-1].family])


def test_of_equal_hosts_the_first_ones_stand_for_all():
    """A fast host beside two equal ones has five subsets that differ, three equal hosts have three."""
    wanted = {"one fast": {(0,), (1,), (0, 1), (1, 2), (0, 1, 2)}, "even": {(0,), (0, 1), (0, 1, 2)}}
    for name, subsets in wanted.items():
        assert {each.hosts for each in cells(clusters(quick=False)[name].hosts)} == subsets


def test_equal_plans_are_run_once_and_what_ran_is_kept(tmp_path):
    """A second time nothing runs."""
    ran = []
    for name in ("a", "b"):
        (tmp_path / name).mkdir()
    plans = [Planned(name, ONE_HOST, tmp_path / name / "plan.json", 1.0) for name in ("a", "b")]
    plans.append(Planned("c", ONE_HOST, tmp_path / "c" / "plan.json", 1.0, same_as="b"))

    def run(_, path):
        ran.append(path.parent.name)
        return (2.0, 1.0, 3.0), 0.0

    assert measured(None, plans, 2, run) == {name: [2.0, 2.0] for name in "abc"}
    assert ran == ["a", "b", "b", "a"]
    measured(None, plans, 2, run)
    assert len(ran) == 4


def test_a_disturbed_setting_is_run_again_some_times():
    """Whatever its regret is: rounds that differ tell nothing of it."""
    quiet, disturbed = {"noise": 0.1, "regret": 0.5}, {"noise": 0.6, "regret": 0.0}
    assert not planner.is_disturbed(quiet)
    assert [planner.is_disturbed(disturbed | {"tries": count}) for count in (1, 2, 3)] == [True, True, False]
    assert planner.is_disturbed(disturbed)


def test_who_is_far_behind_is_not_run_again(tmp_path):
    """Twice as long as the fastest cannot be the best; a bit longer can, and the chosen one always has all rounds."""
    seconds, ran = {CHOSEN: 3.0, "near": 1.05, "next": 1.2, "far": 2.0, "fastest": 1.0}, []
    for name in seconds:
        (tmp_path / name).mkdir()
    plans = [Planned(name, ONE_HOST, tmp_path / name / "plan.json", 1.0) for name in seconds]

    def run(_, path):
        ran.append(path.parent.name)
        return (seconds[path.parent.name],), 0.0

    found = measured(None, plans, 3, run)
    assert ran == [*seconds, "fastest", "next", "near", CHOSEN, CHOSEN, "near", "fastest"]
    assert {name: len(rounds_s) for name, rounds_s in found.items()} == dict(zip(seconds, (3, 3, 2, 1, 3), strict=True))


@pytest.mark.long
def test_prices_are_within_what_is_asked_of_machines_that_are_described_anew(monkeypatch):
    """And a price of twice as much is found out."""
    plan = plan_on_three()
    assert family_of(plan) in FAMILIES
    assert worst_shadow_error(plan) <= WITHIN
    said = explain_plan(plan)
    doubled = tuple(price.model_copy(update={"moved_s": 2 * price.moved_s}) for price in said.prices)
    monkeypatch.setattr(_planner_shadow, "explain_plan", lambda _: said.model_copy(update={"prices": doubled}))
    assert worst_shadow_error(plan) > WITHIN


@pytest.mark.long
def test_the_quick_form_plans_the_whole_grid():
    """On devices of the catalog: none of it is simulated faster than what the search chose."""
    found = planner.main(quick=True)
    assert found["settings"] == 1
    assert 0 <= found["worst_regret"] <= 1e-3
    assert found["never_worse_than_one_device"]
    assert found["worst_bound_over_best"] <= 1
    assert 0 <= found["worst_search_gap"] <= found["median_any_plan_gap"] + 1e-9
    assert len(found["rows"][0]["plans"]) == 6
