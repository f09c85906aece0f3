"""A cause is named only where the traces show it."""

import pytest

from gnnplan.planner.causes import Causes, Reason
from gnnplan.planner.trace import Span, Trace

EPOCHS = range(5)


def trace(origin, rows, unprofiled=()):
    """A trace of two workers from (task, worker, category, start, end[, per epoch more]) rows."""
    spans = []
    for task, worker, category, start_s, end_s, *more in rows:
        for epoch in EPOCHS if origin == "measured" else [0]:
            extra_s = more[0][epoch] if more and origin == "measured" else 0.0
            spans.append(
                Span(
                    task=task, worker=worker, epoch=epoch, category=category, start_s=start_s,
                    end_s=end_s + extra_s, unprofiled=task in unprofiled,
                )
            )  # fmt: skip
    return Trace(
        origin=origin, plan_fingerprint="f", num_workers=2, spans=tuple(spans), epoch_s=(1.0,), peak_bytes=(1, 1)
    )


def both(task, category, start_s, end_s, *more):
    """The same row on both workers."""
    return [(task, worker, category, start_s, end_s, *more) for worker in (0, 1)]


def cause(predicted, measured, task="t", unprofiled=()):
    return Causes(trace("predicted", predicted, unprofiled), trace("measured", measured)).of(task)


def test_waiting_names_the_worker_waited_for():
    """Worker 1 comes four seconds late, so worker 0 is four seconds longer in the collective."""
    predicted = both("t", "communicate", 1, 2)
    measured = [("t", 0, "communicate", 1, 6), ("t", 1, "communicate", 5, 6)]
    assert cause(predicted, measured) == Reason("waiting", 1)


def test_waiting_less_than_predicted_names_whom_the_prediction_waits_for():
    """Worker 1 was predicted to come four seconds late; it comes first, and hardly anybody waits."""
    predicted = [("t", 0, "communicate", 1, 6), ("t", 1, "communicate", 5, 6)]
    measured = [("t", 0, "communicate", 1.1, 2), ("t", 1, "communicate", 1, 2)]
    assert cause(predicted, measured) == Reason("less_waiting", 1)


def test_a_collective_that_is_slow_itself_is_no_waiting():
    """Both come at once and both take three times as long."""
    assert cause(both("t", "communicate", 1, 2), both("t", "communicate", 1, 4)) == Reason("operator")


def test_an_unprofiled_shape_is_named():
    """Whatever else may be, the prediction was a guess."""
    found = cause(both("t", "compute", 0, 1), both("t", "compute", 0, 5), unprofiled=("t",))
    assert found == Reason("unprofiled")


def test_a_task_that_spreads_as_much_as_it_misses_varies():
    """Epochs from 1 to 5 seconds make a miss of half a second no news."""
    measured = both("t", "compute", 0, 1, [0.0, 0.0, 0.5, 4.0, 4.0])
    assert cause(both("t", "compute", 0, 1), measured) == Reason("variance")


@pytest.mark.parametrize(("others", "expected"), [(2.0, "contention"), (1.0, "operator")])
def test_contention_is_when_everything_is_slower(others, expected):
    """A task at twice its seconds: with everything else, or alone."""
    names = [f"o{index}" for index in range(6)]
    predicted = [row for name in names for row in both(name, "compute", 0, 1)] + both("t", "compute", 0, 1)
    measured = [row for name in names for row in both(name, "compute", 0, others)] + both("t", "compute", 0, 2)
    assert cause(predicted, measured) == Reason(expected)


def test_a_task_that_runs_again_and_again_counts_as_long_as_all():
    """As a stage of mini-batches does: it is slower by what all of its batches are."""
    others = [row for name in ("o0", "o1", "o2") for row in both(name, "compute", 0, 1)]
    predicted = [*others, *both("t", "compute", 0, 1), *both("t", "compute", 1, 2)]
    measured = [*others, *both("t", "compute", 0, 3), *both("t", "compute", 3, 4)]
    assert cause(predicted, measured) == Reason("operator")
    slow_end = [*others, *both("t", "compute", 0, 1), *both("t", "compute", 3, 4)]
    assert cause(predicted, slow_end) == Reason("variance")


def test_no_miss_is_put_down_to_nothing_special():
    """A task that took exactly what was predicted varies by as much as it misses: not at all."""
    assert cause(both("t", "compute", 0, 1), both("t", "compute", 0, 1)) == Reason("variance")
