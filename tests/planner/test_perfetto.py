"""The trace-event file: what the viewers require of it, and where everything stands."""

import json
from itertools import pairwise

import pytest

from gnnplan.planner.perfetto import write_perfetto
from gnnplan.planner.trace import Span, Trace
from gnnplan.profiles.errors import UserError


def span(task, start_s, end_s, worker=0, epoch=0, category="compute", unprofiled=False):
    return Span(
        task=task,
        worker=worker,
        epoch=epoch,
        category=category,
        start_s=start_s,
        end_s=end_s,
        unprofiled=unprofiled,
    )


def trace_of(*spans, origin="predicted", num_workers=2):
    return Trace(
        origin=origin,
        plan_fingerprint="f" * 16,
        num_workers=num_workers,
        spans=spans,
        epoch_s=(1.0,),
        peak_bytes=(1,) * num_workers,
    )


PREDICTED = trace_of(
    span("l0/aggregate", 0, 1e-3),
    span("l0/exchange", 1e-3, 2e-3, category="communicate", unprofiled=True),
    span("l0/aggregate", 0, 1.5e-3, worker=1),
    span("l0/exchange", 1.5e-3, 2e-3, worker=1, category="communicate"),
)
MEASURED = trace_of(
    span("l0/aggregate", 0, 1.2e-3, epoch=4),
    span("l0/exchange", 1.2e-3, 3e-3, worker=1, epoch=4, category="communicate"),
    span("l0/aggregate", 1e-4, 1.1e-3, epoch=5),
    origin="measured",
)


@pytest.fixture
def events(tmp_path):
    """Events of a predicted and a measured trace, as a viewer reads them."""
    path = write_perfetto(tmp_path / "trace.json", [PREDICTED, MEASURED], ["predicted", "measured"])
    return json.loads(path.read_text())["traceEvents"]


def named(events, kind):
    """Arguments of the metadata events of a kind, by process and thread."""
    return {(event["pid"], event.get("tid")): event["args"] for event in events if event["name"] == kind}


def rows_of(events):
    """Complete events by process and row name."""
    processes = {pid: args["name"] for (pid, _), args in named(events, "process_name").items()}
    threads = {key: args["name"] for key, args in named(events, "thread_name").items()}
    rows = {(processes[pid], name): [] for (pid, _), name in threads.items()}
    for event in events:
        if event["ph"] == "X":
            rows[processes[event["pid"]], threads[event["pid"], event["tid"]]].append(event)
    return rows


def test_events_have_the_required_fields(events):
    """Every event is metadata, complete or an end of an arrow, with the fields the format asks for and times >= 0."""
    for event in events:
        assert event["ph"] in {"M", "X", "s", "f"}
        assert isinstance(event["name"], str)
        assert isinstance(event["pid"], int)
        if event["ph"] == "X":
            assert {"cat", "tid", "ts", "dur", "args"} <= event.keys()
            assert event["ts"] >= 0
            assert event["dur"] >= 0


def test_predicted_and_measured_of_a_worker_are_neighbours(events):
    """Processes are ordered by worker, then by trace."""
    order = {pid: args["sort_index"] for (pid, _), args in named(events, "process_sort_index").items()}
    names = {pid: args["name"] for (pid, _), args in named(events, "process_name").items()}
    assert [names[pid] for pid in sorted(names, key=order.__getitem__)] == [
        "predicted w0",
        "measured w0",
        "predicted w1",
        "measured w1",
    ]


def test_rows_are_the_categories(events):
    """Each worker has a compute and a communicate row, and no host row without host work."""
    assert {row for _, row in rows_of(events)} == {"compute", "communicate"}
    assert len(rows_of(events)) == 8


def test_thread_ids_are_unique(events):
    """No row shares its id with a row of another process."""
    tids = [tid for _, tid in named(events, "thread_name")]
    assert len(set(tids)) == len(tids)


def test_spans_of_a_row_are_monotonic_and_do_not_overlap(events):
    """Each event starts after the one before it in the file has ended."""
    for row in rows_of(events).values():
        for before, after in pairwise(row):
            assert round(before["ts"] * 1000) + round(before["dur"] * 1000) <= round(after["ts"] * 1000)


def test_times_are_microseconds(events):
    """A span of 1 to 2 ms starts at 1000 and lasts 1000."""
    (event,) = rows_of(events)["predicted w0", "communicate"]
    assert (event["ts"], event["dur"]) == (1000.0, 1000.0)


def test_args_hold_task_epoch_and_unprofiled(events):
    """What a reader clicks on says which task it was and what the prediction rests on."""
    (event,) = rows_of(events)["predicted w0", "communicate"]
    assert event["args"] == {"task": "l0/exchange", "epoch": 0, "unprofiled": True}


def test_epochs_follow_one_another(events):
    """An epoch begins where the last worker ended the one before."""
    first, second = rows_of(events)["measured w0", "compute"]
    assert (first["args"]["epoch"], second["args"]["epoch"]) == (4, 5)
    assert (first["ts"], second["ts"]) == (0.0, 3100.0)


def test_overlapping_spans_get_rows_of_their_own(tmp_path):
    """Two streams of one category are drawn below each other."""
    trace = trace_of(span("a", 0, 2), span("b", 1, 3), span("c", 2, 4), num_workers=1)
    path = write_perfetto(tmp_path / "trace.json", [trace], ["predicted"])
    rows = rows_of(json.loads(path.read_text())["traceEvents"])
    assert [event["name"] for event in rows["predicted w0", "compute"]] == ["a", "c"]
    assert [event["name"] for event in rows["predicted w0", "compute 2"]] == ["b"]


def ends_of_arrows(events):
    """By arrow, (process, time) where it starts and where it ends."""
    starts = {event["id"]: (event["pid"], event["ts"]) for event in events if event["ph"] == "s"}
    ends = {event["id"]: (event["pid"], event["ts"]) for event in events if event["ph"] == "f"}
    assert starts.keys() == ends.keys()
    return [(starts[name], ends[name]) for name in starts]


def test_an_arrow_goes_from_the_last_to_come(events):
    """Worker 1 of the prediction began the exchange half a millisecond after worker 0, which waited for it."""
    names = {pid: args["name"] for (pid, _), args in named(events, "process_name").items()}
    (((sender, sent), (receiver, received)),) = ends_of_arrows(events)
    assert (names[sender], names[receiver]) == ("predicted w1", "predicted w0")
    assert sent == received == 1500.0


def test_arrows_end_within_what_they_point_at(tmp_path):
    """One arrow to each other worker; none to one that had ended by then, as clocks of hosts may say."""
    spans = [span("x", start, end, worker=w, category="communicate") for w, (start, end) in enumerate(MEETINGS)]
    path = write_perfetto(tmp_path / "trace.json", [trace_of(*spans, num_workers=4)], ["predicted"])
    arrows = ends_of_arrows(json.loads(path.read_text())["traceEvents"])
    assert [(sender, receiver) for (sender, _), (receiver, _) in arrows] == [(3, 1), (3, 2)]
    assert {at for _, (_, at) in arrows} == {3e6}


MEETINGS = [(0.0, 4.0), (1.0, 4.0), (3.0, 4.0), (0.0, 2.0)]


def test_host_work_has_a_row(tmp_path):
    """Host spans stand in a row of their own."""
    trace = trace_of(span("sample", 0, 1, category="host"), num_workers=1)
    path = write_perfetto(tmp_path / "trace.json", [trace], ["predicted"])
    assert ("predicted w0", "host") in rows_of(json.loads(path.read_text())["traceEvents"])


def test_no_traces_make_an_empty_file(tmp_path):
    """Nothing to draw is still a valid file."""
    path = write_perfetto(tmp_path / "trace.json", [], [])
    assert json.loads(path.read_text())["traceEvents"] == []


def test_file_is_replaced_and_nothing_is_left_beside_it(tmp_path):
    """A second write replaces the first; no temporary file stays."""
    path = tmp_path / "trace.json"
    path.write_text("old")
    write_perfetto(path, [PREDICTED], ["predicted"])
    assert json.loads(path.read_text())["displayTimeUnit"] == "ms"
    assert list(tmp_path.iterdir()) == [path]


def test_path_that_cannot_be_written_is_a_user_error(tmp_path):
    """A folder that is a file is named in one line."""
    (tmp_path / "file").write_text("")
    with pytest.raises(UserError, match="cannot be written"):
        write_perfetto(tmp_path / "file" / "trace.json", [PREDICTED], ["predicted"])
