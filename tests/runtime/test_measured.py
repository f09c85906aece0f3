"""The measured trace: every epoch by those that took part, also where workers were missing from some."""

from types import SimpleNamespace

import pytest

from gnnplan.runtime.measured import UNTIMED_EPOCHS, measured_trace


def record(epoch, start_s, end_s, *, begun=None, sent_bytes=10, loss=1.0, num_members=0, oldest=0):
    spans = [["l0/multiply/forward", "compute", start_s, end_s]]
    return {
        "epoch": epoch, "start_s": start_s, "end_s": end_s, "loss": loss, "spans": spans, "sent_bytes": sent_bytes,
        "begun": begun, "num_members": num_members, "oldest": oldest,
    }  # fmt: skip


def trace_of(by_worker, *, partial=None, interval=1):
    plan = SimpleNamespace(
        num_workers=len(by_worker),
        partial=partial,
        refresh_interval=interval,
        fingerprint=lambda: "f" * 16,
    )
    quiet = {"machine": "m", "elapsed_s": 9.0, "busy_s": 8.0, "own_s": 4.0, "num_cores": 2}
    gathered = [
        {"records": r, "peak_bytes": 7, "setup_s": float(i), "stolen_share": i / 100, "load": quiet}
        for i, r in enumerate(by_worker)
    ]
    return measured_trace(plan, gathered, {"test": 0.5})


def test_epochs_last_from_one_end_to_the_next():
    """Warm-up left out; losses of all; spans count from the epoch's begin."""
    workers = [
        [record(e, 10.0 * e, 10.0 * e + 3) for e in range(5)],
        [record(e, 10.0 * e + 1, 10.0 * e + 4) for e in range(5)],
    ]
    trace = trace_of(workers)
    assert trace.epoch_s == (10.0,) * (5 - UNTIMED_EPOCHS)
    assert trace.losses == (1.0,) * 5
    assert [(s.epoch, s.worker, s.start_s, s.end_s) for s in trace.spans[2:4]] == [(1, 0, 0.0, 3.0), (1, 1, 1.0, 4.0)]
    assert trace.stolen_share == 0.01
    assert (trace.peak_bytes, trace.setup_s, trace.num_members, trace.oldest) == ((7, 7), 1.0, (), ())


def test_a_worker_counts_for_the_epoch_whose_step_it_took_part_in():
    """Worker 1 began epoch 3 and took part in 5: it is missing from 3 and 4, and its tasks lie outside of 5."""
    present = [record(e, float(e), e + 1.0, begun=e, num_members=2, oldest=1) for e in range(7)]
    late = [record(e, float(e), e + 1.0, begun=e, num_members=2) for e in (0, 1, 2)]
    late += [record(5, 3.0, 6.5, begun=3, num_members=2, oldest=2, sent_bytes=99), record(6, 6.5, 7.0, begun=6)]
    trace = trace_of([present, late], partial=object())
    assert trace.epoch_s == pytest.approx((1.0, 1.0, 1.0, 1.5, 0.5))
    assert trace.num_members == (2,) * 7
    assert trace.oldest == (1, 1, 1, 1, 1, 2, 1)
    assert [s.epoch for s in trace.spans if s.worker == 1] == [0, 1, 2, 6]
    assert trace.sent_bytes == (10, 10)


def test_a_step_of_late_ones_alone_has_no_tasks():
    """Where the least group is less than a majority, all of one may have begun in an earlier epoch."""
    first = [record(e, float(e), e + 1.0, begun=e, num_members=1) for e in (0, 1, 2, 4)]
    second = [record(e, float(e), e + 1.0, begun=e, num_members=1) for e in (0, 1)]
    second += [record(3, 2.0, 3.5, begun=2, num_members=1), record(4, 3.5, 5.0, begun=4, num_members=2)]
    trace = trace_of([first, second], partial=object())
    assert trace.epoch_s == pytest.approx((1.0, 0.5, 1.5))
    assert sorted({s.epoch for s in trace.spans}) == [0, 1, 2, 4]


def test_epochs_that_overlap_add_up_to_the_whole():
    """Worker 0 begins every epoch while worker 1 still ends the last; one epoch alone is counted from its begin."""
    workers = [
        [record(e, 10.0 * e, 10.0 * e + 10) for e in range(6)],
        [record(e, 10.0 * e + 4, 10.0 * e + 13) for e in range(6)],
    ]
    assert trace_of(workers).epoch_s == (10.0,) * (6 - UNTIMED_EPOCHS)
    assert trace_of([records[:1] for records in workers]).epoch_s == (13.0,)


def test_who_ends_a_step_late_ends_it_before_the_next():
    """Stopped right after step 3, worker 1 goes on when step 4 is over."""
    present = [record(e, float(e), e + 1.0, begun=e, num_members=2) for e in range(6)]
    stopped = [record(e, float(e), e + 1.0, begun=e, num_members=2) for e in range(3)]
    stopped += [record(3, 3.0, 5.5, begun=3, num_members=2), record(5, 5.5, 6.0, begun=5, num_members=2)]
    assert trace_of([present, stopped], partial=object()).epoch_s == pytest.approx((1.0, 2.5, 0.0, 0.5))


def test_bytes_of_both_kinds_of_epochs():
    """The last epoch that the interval divides, and the mean of the last others; empty where there was none."""
    workers = [[record(e, float(e), e + 1.0, sent_bytes=100 * (w + 1) + e) for e in range(5)] for w in range(2)]
    trace = trace_of(workers, interval=3)
    assert (trace.sent_bytes, trace.reuse_sent_bytes, trace.refresh_interval) == ((103, 203), (103, 203), 3)
    assert trace_of(workers).reuse_sent_bytes == ()


def test_time_that_evaluations_take_is_in_no_epoch():
    """Three seconds before the fourth epoch, and in the wall time of all after it."""
    records = [record(e, float(e), e + 1.0) for e in range(3)]
    records += [record(e, e + 3.0, e + 4.0) | {"paused_s": 3.0} for e in range(3, 6)]
    assert trace_of([records]).epoch_s == pytest.approx((1.0,) * (6 - UNTIMED_EPOCHS))


def test_what_others_used_is_told():
    """Of two cores' eighteen seconds no worker knows of what both did not use."""
    workers = [[record(e, float(e), e + 1.0) for e in range(3)]]
    assert trace_of(workers).others_share == pytest.approx((8.0 - 4.0) / 18.0, abs=0.01)
    assert trace_of(workers * 2).others_share == 0.0
