"""The benchmark of fluctuating hosts: what is looked at and how delays are compared."""

from contextlib import nullcontext
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
from timed_traces import measured

from benchmarks import _fluctuation_accuracy as accuracy
from benchmarks import _results, fluctuation
from benchmarks._fluctuation_results import cut_of_sums, cuts, errors, mean_cut
from benchmarks._fluctuation_runs import counted_s, measured_lengths_s, simulated_lengths_s, with_training
from benchmarks._fluctuation_settings import FULL, RunWeather, drawn_weather, row_of, told_weather, weathers_of
from gnnplan.planner.cluster import Cluster, DeviceSpec, HostSpec
from gnnplan.planner.generate import generate_sbm
from gnnplan.planner.graph_spec import SbmGraph
from gnnplan.planner.job import Job
from gnnplan.planner.job_pins import PinnedDecisions
from gnnplan.planner.model_spec import ModelSpec
from gnnplan.planner.search import make_plan
from gnnplan.planner.training_spec import TrainingSpec
from gnnplan.planner.weather.model import SleepWeather
from gnnplan.planner.weather.sleeps import sleeps_s

HOSTS = [host.name for host in FULL.cluster().hosts]
SPEC = SbmGraph(source="sbm", num_nodes=200, num_classes=3, num_features=8)
SLEEPS = SleepWeather(probability=0.5)


def planned(**training):
    """Two workers of one host."""
    pin, model = PinnedDecisions(num_workers=2), ModelSpec(hidden_channels=8, dropout=0.5)
    job = Job(graph=SPEC, model=model, training=TrainingSpec(**training), pin=pin)
    cluster = Cluster(hosts=(HostSpec(name="a", devices=(DeviceSpec(catalog="t4", count=2),)),))
    return make_plan(job, cluster, generate_sbm(SPEC))[0]


def test_the_epoch_that_is_not_timed_is_as_long_as_the_next():
    """What was decided between epochs is in them: they are counted from one's end to the next one's."""
    assert measured_lengths_s(measured((2.0, 3.0, 4.0))).tolist() == [2.0, 2.0, 3.0, 4.0]


def test_only_epochs_within_the_time_looked_at_count():
    """The warm-up counts as time, not as epochs; what ends later is left out, whatever it took."""
    lengths_s = np.array([1.0, 1.0, 2.0, 3.0, 50.0])
    assert counted_s(lengths_s, RunWeather("calm")).tolist() == [2.0, 3.0, 50.0]
    assert counted_s(lengths_s, RunWeather("changes", until_s=7.0)).tolist() == [2.0, 3.0]
    with pytest.raises(AssertionError, match=r"within 3\.0 s of changes"):
        counted_s(lengths_s, RunWeather("changes", until_s=3.0))


@pytest.mark.long
def test_a_plan_for_another_training_is_the_one_that_would_be_made():
    """Its program has the seed; length and weather are in none."""
    changes = {"epochs": 30, "seed": 5, "weather": SLEEPS}
    made, changed = planned(**changes), with_training(planned(epochs=10), **changes)
    assert (changed.job, changed.cycle, changed.choices) == (made.job, made.cycle, made.choices)
    assert changed.cycle is not None
    with pytest.raises(AssertionError, match="made anew for other learning_rate"):
        with_training(made, learning_rate=1.0)


def test_the_runs_own_sleeps_are_simulated():
    """Every epoch but the first, as much longer as the longest sleep in it."""
    plan = planned(epochs=20)
    slept_s = np.stack([sleeps_s(SLEEPS, worker, 20, plan.prediction.epoch_s) for worker in range(2)]).max(0)[1:]
    found_s = simulated_lengths_s(plan, RunWeather("sleeps", sleeps=SLEEPS))
    np.testing.assert_allclose(found_s, plan.prediction.epoch_s + slept_s, rtol=1e-6)


def epochs(mean_s, calm_s, calm_error_s=0.0, name="ours"):
    """What is known of a variant in one weather."""
    return {"variant": name, "mean_epoch_s": mean_s, "calm_epoch_s": calm_s, "calm_error_s": calm_error_s}


def test_the_smaller_cut_counts():
    """A variant that is slow in calm gains less against the best static one's calm epoch than against its own."""
    best = epochs(5.0, 1.0)
    ours = cuts(epochs(3.0, 2.0), best)
    assert (ours["delay_s"], ours["delay_from_best_s"]) == (1.0, 2.0)
    assert (ours["cut"], ours["cut_from_best"], ours["least_cut"]) == (4.0, 2.0, 2.0)
    assert cuts(best, best)["least_cut"] == 1.0


def test_no_delay_is_below_a_hundredth_of_an_epoch():
    """Where a run under weather was as fast as in calm, noise does not make an endless cut."""
    best = epochs(5.0, 1.0)
    ours = cuts(epochs(0.5, 0.5), best)
    assert ours["delay_s"] == pytest.approx(0.005)
    assert ours["least_cut"] == pytest.approx(4.0 / 0.01)


def test_no_delay_is_below_what_chance_would_make():
    """Two standard errors of the calm mean, where they are more than a hundredth; it is said that they stand there."""
    best = epochs(5.0, 1.0)
    ours = cuts(epochs(1.01, 1.0, calm_error_s=0.1), best)
    assert ours["delay_s"] == pytest.approx(0.2)
    assert ours["is_least_delay"]
    assert not cuts(epochs(3.0, 1.0, calm_error_s=0.1), best)["is_least_delay"]


def test_one_large_cut_counts_little_in_that_of_all_delays():
    """Two weathers, the best static 4 calm epochs late in both; one cut by 400 and one not at all."""
    results = []
    for mean_s in (1.0, 5.0):
        best = epochs(5.0, 1.0, name="all communicated")
        ours = epochs(mean_s, 1.0)
        variants = [each | cuts(each, best) for each in (best, ours)]
        results.append({"best_static": "all communicated", "variants": variants})
    assert mean_cut(results, "ours") == pytest.approx(20.0)
    assert cut_of_sums(results, "ours") == pytest.approx(8 / 4.01)
    assert cut_of_sums(results, "theirs") is None


def test_about_one_host_is_affected_at_any_time():
    """Several spells within the time looked at, none beside another, each on another host than the last."""
    spells = drawn_weather(HOSTS, FULL, 3.0).spells
    assert spells == drawn_weather(HOSTS, FULL, 3.0).spells
    assert spells[0].from_s == 3.0
    assert sum(spell.from_s < FULL.window_s for spell in spells) >= 4
    for before, spell in pairwise(spells):
        assert before.to_s <= spell.from_s <= before.to_s + FULL.pause_s[1]
        assert before.host != spell.host
        assert FULL.spell_s[0] <= spell.to_s - spell.from_s <= FULL.spell_s[1]
        assert 0.1 <= min(spell.link, spell.cpu) <= 0.5
    assert {spell.host for spell in spells} == set(HOSTS)


def test_the_planner_is_told_what_weather_is_on_average():
    """The share of time that a host's link is slow, and how slow, is what many drawn spells have."""
    told = told_weather(FULL)
    assert len(told.workers) == FULL.num_hosts
    state = told.workers[0].link
    spells = drawn_weather(HOSTS, replace(FULL, window_s=10_000.0), 0.0).spells
    whole_s, slow = spells[-1].to_s, [spell for spell in spells if spell.link < 1]
    slow_s = sum(spell.to_s - spell.from_s for spell in slow) / FULL.num_hosts
    assert state.slow_s / (state.slow_s + state.fair_s) == pytest.approx(slow_s / whole_s, rel=0.1)
    assert state.share == pytest.approx(np.mean([spell.link for spell in slow]), rel=0.1)
    assert state.slow_s == pytest.approx(np.mean([spell.to_s - spell.from_s for spell in slow]), rel=0.1)


def test_all_variants_of_a_row_meet_the_same_weathers():
    """Sleeps in seconds, not in each variant's own epochs; the calm first, the others as the scale has them."""
    calm, *others = weathers_of(FULL, epoch_s=0.7, slowest_s=1.5)
    assert calm == RunWeather("calm")
    assert tuple(weather.name for weather in others) == FULL.weathers
    five, two, changes = others
    assert five.sleeps.seconds(123.0) == 5.0
    assert (two.sleeps.seconds(123.0), two.sleeps.duration_epochs) == (1.4, 5)
    assert changes.changes.spells[0].from_s == 6.0
    assert changes.until_s == 6.0 + FULL.window_s


def test_errors_are_the_worst_and_the_median_in_either_direction():
    """None where nothing ran."""
    variants = [{"mean_error": error, "p95_error": 2 * error} for error in (-0.1, 0.05, 0.02)]
    found = errors([{"variants": variants}])
    assert found["worst_simulated_mean_error"] == 0.1
    assert found["median_simulated_p95_error"] == 0.1
    assert errors([])["worst_simulated_mean_error"] is None


def known(row):
    """What is known of a row that has run, where nothing of it is looked at."""
    return {
        "row": row.name,
        "settings": FULL.fingerprint(row),
        "weathers": [],
    }


def trained(row):
    """The same of a graph."""
    return {"graph": row.name, "settings": accuracy.fingerprint(row), "cases": []}


@pytest.fixture
def session(tmp_path, monkeypatch):
    """Runs the whole benchmark with nothing measured; gives its result and what it did."""
    done = []

    def measured_row(_, row, cluster):
        done.append(row.name)
        return known(row)

    def trained_graph(row, cluster, folder, emulation):
        done.append(row.name)
        return trained(row)

    monkeypatch.setattr(_results, "RESULTS", tmp_path)
    monkeypatch.setattr(fluctuation, "why_absent", lambda name, _: None)
    monkeypatch.setattr(fluctuation, "profiled", lambda scale, folder: scale.cluster())
    monkeypatch.setattr(fluctuation, "inside", lambda cluster: nullcontext())
    monkeypatch.setattr(fluctuation.accuracy, "accuracies_of", trained_graph)
    monkeypatch.setattr(fluctuation._Results, "_measured", measured_row)

    def run():
        done.clear()
        return fluctuation.main(quick=False), list(done)

    return run


def test_what_has_run_is_not_run_again(session):
    """Rows and graphs are written as soon as they are known, and read in the next session."""
    result, done = session()
    assert done == [*FULL.rows, *FULL.accuracy_graphs]
    assert result["missing"] == result["skipped"] == []
    again, done = session()
    assert done == []
    assert again == result


def test_other_settings_are_run_again(session, monkeypatch):
    """They may make other figures."""
    session()
    longer = replace(FULL, window_s=2 * FULL.window_s)
    monkeypatch.setattr(fluctuation, "FULL", longer)
    assert session()[1] == list(FULL.rows)


def test_graphs_that_are_not_here_are_missing_and_said(session, monkeypatch):
    """The others are run."""
    absent = {FULL.rows[0], FULL.accuracy_graphs[0]}
    monkeypatch.setattr(fluctuation, "why_absent", lambda name, _: f"{name}: not here" if name in absent else None)
    result, done = session()
    assert done == [*FULL.rows[1:], *FULL.accuracy_graphs[1:]]
    assert result["missing"] == [FULL.rows[0], FULL.accuracy_graphs[0]]
    assert result["skipped"] == [f"{name}: not here" for name in result["missing"]]


def test_a_graph_may_lie_elsewhere_but_not_be_another():
    """Figures are of a graph, wherever it lies."""
    row = row_of(FULL.rows[0])
    moved = replace(row, graph=row.graph.model_copy(update={"path": Path("elsewhere.npz")}))
    assert FULL.fingerprint(moved) == FULL.fingerprint(row)
    assert FULL.fingerprint(replace(row, name="another")) != FULL.fingerprint(row)
