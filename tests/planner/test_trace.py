"""The `Trace` contract: its file, its errors and its figures."""

import json

import pytest
from pydantic import ValidationError

from gnnplan.planner.trace import Percentiles, Span, Trace
from gnnplan.profiles.errors import UserError


def span(category, start_s, end_s, worker=0, epoch=0):
    return Span(task="t", worker=worker, epoch=epoch, category=category, start_s=start_s, end_s=end_s)


def trace_of(*spans, **changes):
    fields = {
        "origin": "measured",
        "plan_fingerprint": "f" * 16,
        "num_workers": 2,
        "spans": spans,
        "epoch_s": (1.0, 2.0, 9.0),
        "peak_bytes": (10, 20),
    }
    return Trace(**(fields | changes))


@pytest.fixture
def raw():
    """A saved trace as decoded JSON."""
    return json.loads(trace_of(span("compute", 0, 1)).model_dump_json())


def test_save_and_load_round_trip(tmp_path):
    """A trace read back equals the one written, to the last bit of its seconds."""
    trace = trace_of(span("compute", 0.1, 0.1 + 0.2), losses=(1 / 3,), accuracy={"test": 0.7}, setup_s=2.5)
    path = trace.save(tmp_path / "trace.json")
    assert Trace.load(path) == trace
    assert Trace.load(path).fingerprint() == trace.fingerprint()


def test_file_of_another_kind_is_named(raw):
    """A plan file given as a trace is called a plan file."""
    with pytest.raises(UserError, match=r"run\.json: this is a 'plan' file, a 'trace' file is needed"):
        Trace.parse(raw | {"kind": "plan"}, where="run.json")


def test_other_version_is_named(raw):
    """A file of another version says which one this gnnplan reads."""
    with pytest.raises(UserError, match="schema_version is 99, this gnnplan reads 1"):
        Trace.parse(raw | {"schema_version": 99}, where="run.json")


def test_missing_version_is_named(raw):
    """A file without a version is not guessed at."""
    del raw["schema_version"]
    with pytest.raises(UserError, match="schema_version is missing"):
        Trace.parse(raw, where="run.json")


def test_unknown_key_is_refused(raw):
    """A misspelt key is an error and not ignored."""
    with pytest.raises(UserError, match=r"run\.json: epoch_seconds: unknown key"):
        Trace.parse(raw | {"epoch_seconds": [1.0]}, where="run.json")


def test_fault_inside_a_span_is_located(raw):
    """The error names the span and its key."""
    raw["spans"][0]["start_s"] = -1
    with pytest.raises(UserError, match=r"spans\.0\.start_s: .*greater than or equal to 0"):
        Trace.parse(raw, where="run.json")


def test_epochs_are_needed():
    """A trace without a timed epoch has no figures and is refused."""
    with pytest.raises(ValidationError, match="epoch_s"):
        trace_of(epoch_s=())


def test_nan_is_refused():
    """A time that is not a number does not enter a trace."""
    with pytest.raises(ValidationError, match="finite"):
        trace_of(epoch_s=(float("nan"),))


def test_trace_is_frozen():
    """A trace cannot be changed after the run."""
    with pytest.raises(ValidationError, match="frozen"):
        trace_of().setup_s = 1.0


def test_median_and_spread_of_the_epochs():
    """One slow epoch moves the spread and not the median."""
    trace = trace_of()
    assert trace.median_epoch_s == 2.0
    assert trace.epoch_spread_s == 4.0


def test_the_expected_epoch_is_that_of_fluctuating_tasks_where_it_is_known():
    """Else the median of what stands there."""
    steady = trace_of(epoch_s=(1.0, 3.0, 2.0))
    assert steady.expected_epoch_s == steady.median_epoch_s == 2.0
    fluctuating = trace_of(epoch_s=(1.0, 3.0, 2.0), fluctuating=Percentiles(p50_s=2.5, p95_s=4.0))
    assert (fluctuating.expected_epoch_s, fluctuating.median_epoch_s) == (2.5, 2.0)


def test_category_seconds_are_a_mean_over_workers_and_a_median_over_epochs():
    """Epochs of 4, 6 and 20 seconds of work on two workers count as 3."""
    spans = [
        *(span("compute", 0, 2, worker, epoch=0) for worker in (0, 1)),
        *(span("compute", 1, 4, worker, epoch=1) for worker in (0, 1)),
        *(span("compute", 0, 10, worker, epoch=2) for worker in (0, 1)),
        span("communicate", 0, 100),
    ]
    assert trace_of(*spans).category_s("compute") == 3.0


def test_epoch_without_the_category_counts_as_zero():
    """A category that occurs in one of three epochs has a median of 0."""
    spans = [span("compute", 0, 1, epoch=epoch) for epoch in range(3)]
    assert trace_of(*spans, span("host", 0, 5)).category_s("host") == 0.0


def test_category_seconds_without_spans():
    """A run that was not traced has no seconds in any category."""
    assert trace_of().category_s("compute") == 0.0


def test_epochs_of_a_refresh_interval_count_together():
    """One epoch in three takes longer: the median is of the means over three in a row, wherever they begin."""
    trace = trace_of(refresh_interval=3, epoch_s=(1.0, 4.0, 1.0, 1.0, 7.0, 1.0, 1.0))
    assert trace.median_epoch_s == 2.5
    assert trace.epoch_spread_s == 0.5
    assert trace_of(refresh_interval=3, epoch_s=(1.0, 4.0)).median_epoch_s == 2.5


def test_categories_weigh_refreshing_and_reusing_epochs_by_their_share():
    """However many of either were traced."""
    spans = [span("compute", 0, 4 + worker, worker, epoch) for epoch in (4, 8, 12) for worker in (0, 1)]
    spans += [span("compute", 0, 1, worker, 5) for worker in (0, 1)]
    assert trace_of(*spans, refresh_interval=4).category_s("compute") == pytest.approx((4.5 + 3 * 1) / 4)
    assert trace_of(*spans[:6], refresh_interval=4).category_s("compute") == 4.5


def test_who_is_missing_from_an_epoch_does_not_count_in_it():
    """Under partial reduce: a worker that joined later has no tasks in the epoch, and makes no mean smaller."""
    both = [span("compute", 0, 2, worker, epoch=0) for worker in (0, 1)]
    alone = [span("compute", 0, 2, 1, epoch=epoch) for epoch in (1, 2)]
    trace = trace_of(*both, *alone, num_members=(2, 1, 1))
    assert trace.workers_traced() == {0: 2, 1: 1, 2: 1}
    assert trace.category_s("compute") == 2.0
