"""The predicted trace says when each task of the schedule ran."""

import pytest

from gnnplan.planner.schedule import Schedule, Task
from gnnplan.planner.simulator.play import cycle_trace, predicted_trace


@pytest.fixture
def schedule():
    """Two workers, uneven work, then a collective."""
    schedule = Schedule(num_workers=2)
    schedule.add(Task("work", 0, "compute", 1.0, 0))
    schedule.add(Task("work", 1, "compute", 3.0, 1, unprofiled=True))
    schedule.add(Task("exchange", 0, "communicate", 0.5, 2, (0,), group=0))
    schedule.add(Task("exchange", 1, "communicate", 0.5, 3, (1,), group=0))
    return schedule


def test_spans_follow_the_schedule(schedule):
    """Every task is a span of epoch 0 under its own key, worker and category."""
    trace = predicted_trace(schedule, "f" * 16, (10, 20), (1, 2))
    assert [(span.task, span.worker, span.category, span.unprofiled) for span in trace.spans] == [
        ("work", 0, "compute", False),
        ("work", 1, "compute", True),
        ("exchange", 0, "communicate", False),
        ("exchange", 1, "communicate", False),
    ]
    assert {span.epoch for span in trace.spans} == {0}


def test_waiting_is_inside_the_span_of_a_collective(schedule):
    """The worker that comes early is in its collective until the last one has come and gone."""
    trace = predicted_trace(schedule, "f" * 16, (10, 20), (1, 2))
    assert [(span.start_s, span.end_s) for span in trace.spans] == [(0, 1), (0, 3), (1, 3.5), (3, 3.5)]


def test_figures_of_the_run(schedule):
    """The epoch lasts as long as the makespan; memory and traffic are passed through."""
    trace = predicted_trace(schedule, "f" * 16, (10, 20), (1, 2))
    assert trace.origin == "predicted"
    assert trace.plan_fingerprint == "f" * 16
    assert trace.num_workers == 2
    assert trace.epoch_s == (3.5,)
    assert trace.peak_bytes == (10, 20)
    assert trace.sent_bytes == (1, 2)
    assert trace.losses == ()


def test_one_figure_for_each_worker_is_needed(schedule):
    """Peak memory of fewer workers than the schedule has is a bug of the caller."""
    with pytest.raises(AssertionError):
        predicted_trace(schedule, "f" * 16, (10,), (1, 2))


def test_an_interval_is_one_refresh_and_the_rest(schedule):
    """Both kinds of epochs stand in the trace; its seconds are those of r epochs."""
    refresh = predicted_trace(schedule, "f" * 16, (10, 20), (5, 6))
    reuse = predicted_trace(Schedule(2, schedule.tasks[:2]), "f" * 16, (10, 20), (1, 0))
    trace = cycle_trace([refresh, reuse], [0, 1, 1], (1, 0))
    assert trace.epoch_s == (3.5, 3.0, 3.0)
    assert [span.epoch for span in trace.spans] == [0, 0, 0, 0, 1, 1]
    assert (trace.sent_bytes, trace.reuse_sent_bytes, trace.refresh_interval) == ((5, 6), (1, 0), 3)
    assert trace.median_epoch_s == pytest.approx(9.5 / 3)
