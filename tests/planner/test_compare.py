"""Predicted against measured: figures, tasks and misses from two traces of one plan."""

import pytest

from gnnplan.planner.compare import Comparison, Figure, compare
from gnnplan.planner.trace import Percentiles, Span, Trace
from gnnplan.profiles.errors import UserError


def trace_of(origin, spans, **changes):
    """A trace of two workers from (task, worker, epoch, category, start, end) rows."""
    fields = {
        "origin": origin,
        "plan_fingerprint": "f" * 16,
        "num_workers": 2,
        "spans": tuple(
            Span(task=t, worker=w, epoch=e, category=c, start_s=s, end_s=end, unprofiled=t == "guess" and w == 0)
            for t, w, e, c, s, end in spans
        ),
        "epoch_s": (2.0,),
        "peak_bytes": (100, 300),
        "sent_bytes": (10, 0),
    }
    return Trace(**(fields | changes))


PREDICTED = trace_of(
    "predicted",
    [("mm", 0, 0, "compute", 0, 1), ("mm", 1, 0, "compute", 0, 3), ("guess", 0, 0, "communicate", 3, 4),
     ("guess", 1, 0, "communicate", 3, 4), ("lost", 0, 0, "host", 0, 0)],
)  # fmt: skip
MEASURED = trace_of(
    "measured",
    [
        *[("mm", w, e, "compute", 0, 1 + e) for w in (0, 1) for e in (0, 1, 2)],
        *[("guess", w, e, "communicate", 3, 7) for w in (0, 1) for e in (0, 1, 2)],
        ("new", 1, 0, "host", 0, 1),
    ],
    epoch_s=(3.0, 4.0, 5.0),
    peak_bytes=(200, 300),
    sent_bytes=(10, 0),
    accuracy={"test": 0.5},
)


def test_figures_stand_beside_each_other():
    """The epoch by its median, memory and bytes worker by worker, each with its relative error."""
    comparison = compare(PREDICTED, MEASURED)
    epoch = comparison.figure("epoch")
    assert (epoch.predicted, epoch.measured, epoch.error) == (2.0, 4.0, -0.5)
    assert comparison.figure("compute").predicted == 2.0
    assert comparison.figure("compute").measured == 2.0
    assert comparison.figure("peak memory, worker 0").error == -0.5
    assert comparison.figure("peak memory, worker 1").error == 0.0
    assert comparison.figure("sent, worker 0").unit == "bytes"


def test_the_epoch_is_the_one_expected_of_fluctuating_tasks():
    """Where it was simulated."""
    predicted = PREDICTED.model_copy(update={"fluctuating": Percentiles(p50_s=3.0, p95_s=9.0)})
    assert compare(PREDICTED, MEASURED).figure("epoch").predicted == 2.0
    assert compare(predicted, MEASURED).figure("epoch").predicted == 3.0


def test_nothing_measured_has_no_error():
    """A relative error of zero bytes is not a number."""
    assert compare(PREDICTED, MEASURED).figure("sent, worker 1").error is None
    assert Figure(name="x", unit="s", predicted=3, measured=2).error == 0.5


def test_tasks_are_means_over_workers_and_medians_over_epochs():
    """The largest miss comes first, and guesses are marked."""
    tasks = compare(PREDICTED, MEASURED).tasks
    assert [(task.task, task.predicted_s, task.measured_s) for task in tasks] == [("guess", 1.0, 4.0), ("mm", 2.0, 2.0)]
    assert [task.unprofiled for task in tasks] == [True, False]
    assert tasks[0].miss_s == -3.0


def test_a_worker_that_is_missing_makes_no_task_shorter():
    """Under partial reduce: the mean is over those that are in an epoch."""
    spans = [span for span in MEASURED.spans if span.worker == 0 or span.epoch == 0]
    absent = MEASURED.model_copy(update={"spans": tuple(spans), "num_members": (2, 1, 1)})
    comparison = compare(PREDICTED, absent)
    tasks = {task.task: task.measured_s for task in comparison.tasks}
    assert tasks == {"guess": 4.0, "mm": 2.0}
    assert comparison.went_on_share == pytest.approx(2 / 3)
    assert compare(PREDICTED, MEASURED).went_on_share == 0.0


def test_tasks_of_one_side_are_listed():
    """A key only one player knows is a fault of the run or of the lowering."""
    comparison = compare(PREDICTED, MEASURED)
    assert comparison.only_predicted == ("lost",)
    assert comparison.only_measured == ("new",)


def test_spread_and_accuracy_are_the_measured_ones():
    """The interquartile range over the median says what is noise."""
    comparison = compare(PREDICTED, MEASURED)
    assert comparison.epoch_spread == pytest.approx(1.0 / 4.0)
    assert comparison.accuracy == {"test": 0.5}


def test_identical_traces_miss_nothing():
    """A run that went as predicted has no error anywhere."""
    comparison = compare(PREDICTED, PREDICTED.model_copy(update={"origin": "measured"}))
    assert {figure.error for figure in comparison.figures} <= {0.0, None}
    assert all(task.miss_s == 0 for task in comparison.tasks)
    assert comparison.only_predicted == comparison.only_measured == ()


def test_other_plans_and_wrong_order_are_user_errors():
    """Only a predicted and a measured trace of one plan can be compared."""
    with pytest.raises(UserError, match="in this order"):
        compare(MEASURED, PREDICTED)
    with pytest.raises(UserError, match="different plans"):
        compare(PREDICTED, MEASURED.model_copy(update={"plan_fingerprint": "0" * 16}))


def test_save_and_load_round_trip(tmp_path):
    """A comparison is a document like the others."""
    comparison = compare(PREDICTED, MEASURED)
    assert Comparison.load(comparison.save(tmp_path / "c.json")) == comparison


def test_unknown_figure_is_not_found():
    """Figures are found by their exact name."""
    with pytest.raises(StopIteration):
        compare(PREDICTED, MEASURED).figure("speed")
