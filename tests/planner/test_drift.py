"""A training that drifts from its prediction for long is told of once, with a cause that one worker can tell."""

import pytest

from gnnplan.planner.drift import LONG_S, Drift
from gnnplan.planner.plan import Plan
from gnnplan.planner.search import simulate_plan
from tests.runtime.checkpoint.jobs import planned

TASKS = {"multiply": (0.02, "compute"), "relu": (0.01, "compute"), "rows": (0.05, "communicate")}


def played(ratios, measured=None, every_s=2.0, others=None):
    """What is said of epochs that take so many times what was predicted."""
    now = [0.0]
    drift = Drift(0.1, TASKS, others or {}, clock=lambda: now[0])
    said = []
    for number, ratio in enumerate(ratios):
        now[0] += every_s
        event = {"event": "epoch", "epoch": number, "epoch_s": 0.1 * ratio}
        said.append(drift.words_of(event | ({"tasks": measured} if measured and number == 3 else {})))
    return [words for words in said if words]


def test_what_is_near_or_short_is_not_told():
    """Nor what changes its side, nor a few slow epochs."""
    assert played([1.2] * 100) == played([0.85] * 100) == []
    assert played([2.0] * 9) == played([2.0] * 12) == []
    assert played(([2.0] * 12 + [1.0]) * 5) == []
    assert played(([2.0] * 12 + [0.5] * 12) * 5) == []


def test_what_lasts_is_told_once():
    """After half a minute, with how far it is off."""
    (words,) = played([2.0] * 200)
    assert words.startswith(f"for {LONG_S:.0f} s epochs have taken 2 times what was predicted; ")
    assert "no other plan that was looked at is predicted to be faster" in words
    (words,) = played([0.5] * 200)
    assert "0.5 times" in words
    assert "plan" not in words.replace("gnnplan", "")


@pytest.mark.parametrize(
    ("measured", "cause"),
    [
        ({"multiply": 0.04, "relu": 0.021, "rows": 0.05}, "contention: all that worker 0 computes takes 2.05 times"),
        ({"multiply": 0.02, "relu": 0.01, "rows": 0.15}, "communication: rows takes 150 ms on worker 0 where 50 ms"),
        ({"multiply": 0.12, "relu": 0.01, "rows": 0.05}, "operator: multiply takes 120 ms on worker 0 where 20 ms"),
        (None, "`gnnplan compare` names the cause"),
    ],
)
def test_the_cause_is_named(measured, cause):
    """By the task that is off most, and the pace of all others."""
    (words,) = played([2.0] * 40, measured)
    assert cause in words


def test_a_plan_that_would_be_faster_is_named():
    """Only where it is clearly so."""
    (words,) = played([2.0] * 40, others={"alone": 0.12, "halves": 0.11, "slow": 0.5})
    assert "another plan (halves) is predicted to take 110 ms, and this one takes 200 ms" in words
    assert "no other plan" in played([2.0] * 40, others={"alone": 0.19})[0]


def test_tasks_of_a_plan_are_the_first_workers(tmp_path):
    """A plan's own prediction drifts from nothing."""
    plan = Plan.load(planned(tmp_path, 5, interval=3))
    predicted = simulate_plan(plan)
    drift = Drift.of(plan, predicted)
    assert {span.task for span in predicted.spans if span.worker == 0} == set(drift.tasks)
    task = max(drift.tasks, key=lambda name: drift.tasks[name][0])
    spans = [span for span in predicted.spans if (span.task, span.worker) == (task, 0)]
    all_s, num_epochs = sum(span.end_s - span.start_s for span in spans), len({span.epoch for span in spans})
    assert drift.tasks[task][0] == pytest.approx(all_s / num_epochs)
