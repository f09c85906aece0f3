"""The benchmark of predictions: errors, halves, ranking, and clusters kept between sessions."""

import math
from types import SimpleNamespace

import pytest
from timed_traces import measured

from benchmarks import _prediction_results, _results, prediction
from benchmarks._prediction_results import cluster_result, ranking, summary
from benchmarks._prediction_runs import Run
from benchmarks._prediction_settings import UNPINNED, clusters, fingerprint, groups_of
from gnnplan.profiles.errors import UserError


def row(plan, predicted_s, measured_s, *, half=0, group="gcn", after_s=None):
    """A setting as results have it."""
    after_s = predicted_s if after_s is None else after_s
    errors = {which: predicted_s / measured_s - 1 for which in ("error_before", "error_steady", "error_p95")}
    return {
        "group": group,
        "plan": plan,
        "half": half,
        "measured_s": measured_s,
        "before_s": predicted_s,
        "spread": 0.1,
        "epoch_spread": 0.2,
        "stolen_share": 0.0,
        **errors,
        "error_after": after_s / measured_s - 1,
        "error_after_others": None,
        "error_repeat": -0.05,
        "memory_errors": [0.1, -0.2],
    }


def test_the_worst_is_the_farthest_off_in_either_direction():
    """Means are of absolute errors, over all clusters; each half is reported alone as well."""
    one = {"cluster": "one", "rows": [row("a", 1.1, 1.0, after_s=1.0), row("b", 0.7, 1.0, half=1, after_s=0.8)]}
    two = {"cluster": "two", "rows": [row("a", 1.2, 1.0, after_s=1.1)]}
    found = summary([one, two], ["three"], [])
    assert (found["settings"], found["missing"]) == (3, ["three"])
    assert found["mape_before"] == pytest.approx(0.2)
    assert found["worst_before"] == pytest.approx(0.3)
    assert found["mape_repeat"] == pytest.approx(0.05)
    assert (found["mape_after"], found["worst_after"]) == pytest.approx((0.1, 0.2))
    first, second = found["halves"]
    assert (first["plans"], second["plans"]) == (["a"], ["b"])
    assert (first["mape_before"], second["mape_after"]) == pytest.approx((0.15, 0.2))
    assert (found["memory_mape"], found["memory_worst_over"], found["memory_worst_under"]) == (
        pytest.approx(0.15),
        0.1,
        -0.2,
    )


def test_a_group_is_right_where_the_plan_predicted_best_is_nearly_the_best():
    """Within 3% of the measured best; groups of one plan say nothing; the planner's own choice may be left out."""
    rows = [
        row(UNPINNED, 1.0, 1.0),
        row("a", 2.0, 2.04),
        row("b", 2.1, 2.0),
        row("a", 1.0, 1.5, group="sage"),
        row("b", 1.1, 1.2, group="sage"),
        row("a", 1.0, 9.0, group="gat"),
    ]
    all_plans = ranking([{"cluster": "one", "rows": rows}])
    assert (all_plans["groups"], all_plans["ranking_right"]) == (2, 0.5)
    assert all_plans["ranking_worst_regret"] == pytest.approx(0.25)
    assert ranking([{"cluster": "one", "rows": rows[:3]}], without=UNPINNED)["ranking_worst_regret"] == pytest.approx(
        0.02
    )
    assert ranking([{"cluster": "one", "rows": rows[-1:]}])["ranking_right"] is None


def test_a_run_is_judged_by_what_others_calibrated(monkeypatch):
    """Of each group's four settings, each by the two of the other half; and by all of the other group's."""
    groups = groups_of("two even")
    assert len(groups) == 2

    def plan(group, index):
        return SimpleNamespace(
            job=SimpleNamespace(name=f"{group.name} {index}"),
            cycle=SimpleNamespace(cycle=lambda: [2, 2]),
            placement=None,
            profiles=frozenset(),
        )

    rounds = [measured((seconds,) * 3) for seconds in (1.0, 2.0, 3.0)]
    settings = [(group, index) for group in groups for index in range(4)]
    runs = [Run(group, at, plan(group, index), tuple(rounds)) for at, (group, index) in enumerate(settings)]
    judged = {}

    def calibrated(pairs):
        found = [plan.job.name for plan, _ in pairs]
        assert all(found.count(name) == len(rounds) for name in found)
        return SimpleNamespace(profiles={"by": frozenset(found)})

    def simulated(plan, num_replicas):
        if plan.profiles:
            judged.setdefault(plan.job.name, []).append(plan.profiles)
        return SimpleNamespace(expected_epoch_s=3.0, median_epoch_s=3.0, fluctuating=SimpleNamespace(p95_s=3.0))

    def with_profiles(plan, fitted):
        return SimpleNamespace(**vars(plan) | {"profiles": fitted["by"]})

    monkeypatch.setattr(_prediction_results, "loads_of", loads)
    monkeypatch.setattr(_prediction_results, "calibrate", calibrated)
    monkeypatch.setattr(_prediction_results, "simulate_plan", simulated)
    monkeypatch.setattr(_prediction_results, "with_profiles", with_profiles)
    found = cluster_result("two even", groups, runs)
    for at, (group, index) in enumerate(settings):
        by_half, by_others = judged[f"{group.name} {index}"]
        assert by_half == {f"{g.name} {i}" for other, (g, i) in enumerate(settings) if other % 2 != at % 2}
        assert by_others == {f"{g.name} {i}" for g, i in settings if g is not group}
    assert {each["error_before"] for each in found["rows"]} == {0.5}
    assert {each["spread"] for each in found["rows"]} == {1.0}
    assert {each["error_repeat"] for each in found["rows"]} == {1.0 / 2.5 - 1}
    assert found["rows"][0]["memory_errors"] == [1.0, 1.0]


def loads(cycle, placement):
    """What workers are said to need, of plans whose cycle is a list of it."""
    return [SimpleNamespace(peak_bytes=each) for each in cycle]


def test_memory_is_judged_by_the_largest_peak_of_all_rounds(monkeypatch):
    """A round that takes more than is predicted is not outvoted by others that do not."""
    monkeypatch.setattr(_prediction_results, "loads_of", loads)
    plan = SimpleNamespace(cycle=SimpleNamespace(cycle=lambda: [90, 90]), placement=None)
    rounds = tuple(measured((1.0,), peak_bytes=peaks) for peaks in ((60, 90), (100, 90), (60, 45)))
    run = Run(groups_of("two even")[0], 0, plan, rounds)
    assert _prediction_results._memory_errors(run) == pytest.approx([-0.1, 0.0])


@pytest.fixture
def session(tmp_path, monkeypatch):
    """Runs the whole benchmark with nothing measured; gives its result and the clusters that were run."""
    done = []

    def ran(name, groups, runs):
        settings = [(group.name, job.name) for group in groups for job in group.jobs]
        rows = [row(plan, 1.0, 1.0, group=group, half=index % 2) for index, (group, plan) in enumerate(settings)]
        return {"cluster": name, "settings": fingerprint(name, groups), "rows": rows}

    monkeypatch.setattr(_results, "RESULTS", tmp_path)
    monkeypatch.setattr(prediction, "why_absent", lambda name, _: None)
    monkeypatch.setattr(prediction, "run_cluster", lambda cluster, *_, **__: done.append(cluster.name) or [])
    monkeypatch.setattr(prediction, "cluster_result", ran)

    def run():
        done.clear()
        return prediction.main(quick=False), list(done)

    return run


def test_a_cluster_that_has_run_is_not_run_again(session):
    """Each is written as soon as all its runs have ended."""
    result, done = session()
    assert done == list(clusters())
    assert (result["missing"], result["settings"]) == ([], len(_all_jobs()))
    again, done = session()
    assert done == []
    assert again == result


def test_what_was_interrupted_goes_on(session, monkeypatch):
    """With the clusters that are missing, in the order of all."""
    third = list(clusters())[2]
    finished = prediction.cluster_result

    def failing(name, groups, runs):
        if name == third:
            raise RuntimeError("stopped")
        return finished(name, groups, runs)

    monkeypatch.setattr(prediction, "cluster_result", failing)
    with pytest.raises(RuntimeError, match="stopped"):
        session()
    assert _results.kept("prediction")["missing"] == list(clusters())[2:]
    monkeypatch.setattr(prediction, "cluster_result", finished)
    result, done = session()
    assert done == list(clusters())[2:]
    assert [each["cluster"] for each in result["clusters"]] == list(clusters())


def test_a_graph_that_is_not_here_is_missing_and_said(session, monkeypatch):
    """Where no cluster can be run, that is all there is to say."""
    first = next(iter(clusters()))
    monkeypatch.setattr(prediction, "why_absent", lambda name, _: f"{name}: not here" if name == first else None)
    result, done = session()
    assert first not in done
    assert (result["missing"], result["skipped"]) == ([first], [f"{first}: not here"])
    monkeypatch.setattr(prediction, "why_absent", lambda name, _: "not here")
    monkeypatch.setattr(prediction, "kept_parts", lambda *_: {})
    with pytest.raises(UserError, match="not here"):
        session()


def test_settings_are_at_least_as_many_as_were_asked_for():
    """48 settings on two to four hosts; three graphs, three models, two to four layers, both partitioners;
    hosts of one worker and of two that share its processor and link.
    """
    jobs = _all_jobs()
    assert len(jobs) >= 48
    assert {len(cluster.hosts) for cluster in clusters().values()} == {2, 3, 4}
    assert {job.model.kind for job in jobs} == {"gcn", "sage", "gat"}
    assert {job.model.num_layers for job in jobs} == {2, 3, 4}
    assert {job.graph.source for job in jobs} == {"sbm", "rmat", "npz"}
    assert {job.pin.partitioner for job in jobs} == {"metis", "ranges"}
    assert {device.count for each in clusters().values() for host in each.hosts for device in host.devices} == {1, 2}
    rates = {host.link.bytes_per_s if host.link else math.inf for each in clusters().values() for host in each.hosts}
    assert (min(rates), max(rates)) == (100 * 125e3, math.inf)


def _all_jobs():
    return [job for name in clusters() for group in groups_of(name) for job in group.jobs]
