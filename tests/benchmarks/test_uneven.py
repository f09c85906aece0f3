"""The benchmark of uneven devices: how gains are judged, bytes compared, and rows kept between sessions."""

import json
from contextlib import contextmanager
from types import SimpleNamespace

import pytest
import timed_traces

from benchmarks import _results, uneven
from benchmarks._uneven_results import (
    RIGHT,
    UNDECIDED,
    WRONG,
    gain,
    kept_results,
    noise_of,
    row_result,
    sent_as_predicted,
    sign_of,
    summary,
    with_accuracy,
)
from benchmarks._uneven_runs import Timed, Trained, epoch_s
from benchmarks._uneven_settings import ALL, ALL_BUSY, ALL_EXACT, BASE, REMOVED, Row, rows_of
from gnnplan.planner.prediction import WorkerLoad


def measured(epoch_s, sent_bytes=(8, 4), reuse_sent_bytes=()):
    """A trace of these epochs and bytes."""
    return timed_traces.measured(epoch_s, sent_bytes=sent_bytes, reuse_sent_bytes=reuse_sent_bytes)


class FakePlan(SimpleNamespace):
    """What of a plan is looked at."""

    def fingerprint(self):
        return self.name


def timed(name, predicted_s, rounds_s, sent_bytes=(8, 4)):
    """A variant predicted at this epoch, whose rounds took these, of one group of epochs each."""
    loads = tuple(WorkerLoad(peak_bytes=1, capacity_bytes=1, sent_bytes=sent) for sent in (8, 4))
    plan = FakePlan(
        name=name,
        prediction=SimpleNamespace(epoch_s=predicted_s, workers=loads),
        choices=(SimpleNamespace(technique="halo_exchange", decision={"shares": (0.5, 0.5), "balance": "equal"}),),
        is_stale=False,
        fidelity="exact",
        job=SimpleNamespace(training=SimpleNamespace(epochs=6)),
    )
    return Timed(plan, tuple(measured((s,) * 4, sent_bytes) for s in rounds_s), (0.01, 0.03))


ROW = rows_of(True)[0]


def all_timed(*others):
    """Every variant of the row, all alike but for these."""
    found = {name: timed(name, 4.0, (4.0, 4.0)) for name in ROW.jobs}
    return found | {each.plan.name: each for each in others}


def test_a_group_counts_as_one():
    """The refreshing epoch of each interval counts a quarter, not as an outlier that a median leaves out."""
    assert epoch_s(measured((9.0, 1.0, 1.0, 1.0, 1.0, 1.0, 9.0, 1.0))) == 3.0


def test_a_gain_is_the_median_of_the_rounds_ratios():
    """Round by round, whatever the pace of either; predicted beside it."""
    found = gain("ours", "base", {"base": timed("base", 6.0, (4.0, 8.0)), "ours": timed("ours", 3.0, (2.0, 4.0))})
    assert (found["speedup"], found["speedup_range"], found["predicted_speedup"]) == (2.0, [2.0, 2.0], 2.0)
    assert (found["gain_error"], found["sign"]) == (0.0, RIGHT)
    assert (found["variant"], found["against"]) == ("ours", "base")


@pytest.mark.parametrize(
    ("predicted", "ratios", "noise", "sign"),
    [
        (1.3, (1.1, 1.2), 0.01, RIGHT),
        (0.9, (0.8, 0.9), 0.01, RIGHT),
        (1.3, (0.8, 0.9), 0.01, WRONG),
        (0.9, (1.1, 1.2), 0.01, WRONG),
        (1.3, (0.9, 1.1), 0.0, UNDECIDED),
        (0.9, (1.01, 1.05), 0.02, UNDECIDED),  # 1 is within the range once noise is added
        (1.3, (0.95, 0.99), 0.02, UNDECIDED),
        (1.0, (1.2, 1.3), 0.0, UNDECIDED),  # the plan of its base
    ],
)
def test_what_noise_may_have_made_has_no_sign(predicted, ratios, noise, sign):
    """Right, wrong, or neither."""
    assert sign_of(predicted, ratios, noise) == sign


def test_noise_is_of_the_rounds_or_of_the_epochs_in_a_run():
    """Whichever is larger; epochs within a group are no noise, since one of them refreshes."""
    steady, restless = measured((3.0, 1.0, 1.0, 1.0) * 3), measured((1.0,) * 4 + (1.2,) * 4 + (1.1,) * 4)
    assert noise_of((1.5, 1.5), [steady]) == 0
    assert noise_of((1.4, 1.6), [steady]) == pytest.approx(0.1 / 1.5)
    assert noise_of((1.5, 1.5), [steady, restless]) == pytest.approx(0.1 / 1.1)


def test_bytes_are_those_of_every_worker_in_every_round():
    """Two errors that cancel in the sum, or one in a later round, or only where rows are reused, are found."""
    loads = [WorkerLoad(peak_bytes=1, capacity_bytes=1, sent_bytes=s, reuse_sent_bytes=r) for s, r in ((8, 2), (4, 1))]
    good = measured((1.0,), (8, 4), (2, 1))
    assert sent_as_predicted([good, good], loads, is_stale=True)
    assert not sent_as_predicted([good, measured((1.0,), (7, 5), (2, 1))], loads, is_stale=True)
    assert not sent_as_predicted([good, measured((1.0,), (8, 4), (1, 2))], loads, is_stale=True)
    assert sent_as_predicted([measured((1.0,), (8, 4))], loads, is_stale=False)


def test_a_row_has_each_axis_alone_and_within_all():
    """Within all, shares gained a quarter where they were predicted to halve the speed; pruning doubles it in both."""
    without = REMOVED["shares"]
    others = timed(ALL, 2.0, (2.0, 2.0)), timed(without, 1.0, (2.5, 2.5)), timed(ALL_EXACT, 2.0, (3.2, 3.2))
    result = row_result(ROW, all_timed(*others))
    assert (result["approximate_speedup"], result["exact_speedup"]) == pytest.approx((2.0, 1.25))
    assert result["exact_speedup_all_busy"] == 1.0
    assert result["pace_s"] == pytest.approx(0.02)
    within = {each["axis"]: each for each in result["removed"]}
    assert within.keys() == {"pruning", "r = 4", "shares", "overlap"}
    assert (within["shares"]["variant"], within["shares"]["against"]) == (ALL, without)
    assert (within["shares"]["speedup"], within["shares"]["predicted_speedup"]) == (1.25, 0.5)
    assert (within["shares"]["sign"], within["pruning"]["sign"]) == (WRONG, RIGHT)
    found = summary([ROW], {ROW.name: result}, [])
    assert [(each["variant"], each["against"]) for each in found["wrong_signs"]] == [(ALL, without)]
    assert not found["gains_of_the_right_sign"]
    assert found["worst_gain_error"] == pytest.approx(1.5)  # that variant: predicted 4x, measured 1.6x
    assert sum(found["sign_counts"].values()) == len(ROW.jobs) - 2 + len(REMOVED)  # bases have none
    assert found["sign_counts"][WRONG] == 1
    assert found["sign_counts"][UNDECIDED] == len(found["undecided_signs"])
    assert ALL_BUSY in {each["variant"] for each in found["undecided_signs"]}


def test_one_workers_bytes_show_in_the_whole():
    """A single worker of a single variant."""
    result = row_result(ROW, all_timed(timed(ALL_BUSY, 4.0, (4.0, 4.0), (7, 5))))
    assert [v["variant"] for v in result["variants"] if not v["sent_as_predicted"]] == [ALL_BUSY]
    assert not summary([ROW], {ROW.name: result}, [])["all_bytes_as_predicted"]


def test_a_graph_may_lie_elsewhere_but_not_be_another():
    """A row's settings are the same on another machine; with other jobs they are not."""
    other = Row(ROW.name, {name: job.model_copy(update={"name": "x"}) for name, job in ROW.jobs.items()})
    assert other.fingerprint() != ROW.fingerprint()
    row = next(row for row in rows_of(False) if row.name == "gcn coauthor_physics")
    moved = row.graph.model_copy(update={"path": row.graph.path.parent / "elsewhere" / row.graph.path.name})
    jobs = {name: job.model_copy(update={"graph": moved}) for name, job in row.jobs.items()}
    assert Row(row.name, jobs).fingerprint() == row.fingerprint()


@pytest.fixture
def sessions(monkeypatch, tmp_path):
    """Runs the benchmark with nothing emulated; gives what each run timed and trained, and may break off."""
    done = []
    rows = [Row(name, ROW.jobs) for name in ("first", "second")]

    @contextmanager
    def inside(_cluster):
        yield "identity", ()

    def time_row(row, *_):
        done.append(f"timed {row.name}")
        return all_timed()

    def train_row(row, _cluster, _folder, _epochs, seed):
        if train_row.breaks_at == f"{row.name} {seed}":
            raise KeyboardInterrupt
        done.append(f"trained {row.name} {seed}")
        accuracy = 0.5 if row.name == "first" else 0.625
        return {
            BASE: Trained(FakePlan(name=BASE), 0.75),
            ALL: Trained(FakePlan(name="anew", fidelity="exact"), accuracy + seed / 8),
        }

    monkeypatch.setattr(uneven, "inside", inside)
    monkeypatch.setattr(uneven, "time_row", time_row)
    monkeypatch.setattr(uneven, "train_row", train_row)
    monkeypatch.setattr(uneven, "_profiled", lambda cluster, *_: cluster)
    monkeypatch.setattr(uneven, "rows_of", lambda _quick: rows)
    monkeypatch.setattr(_results, "RESULTS", tmp_path)

    def run(breaks_at=None, quick=False):
        done.clear()
        train_row.breaks_at = breaks_at
        try:
            return uneven.main(quick), list(done)
        except KeyboardInterrupt:
            return json.loads((tmp_path / "uneven.json").read_text()), list(done)

    run.rows, run.folder = rows, tmp_path
    return run


def test_a_later_session_goes_on(sessions):
    """What is timed is not timed again, what is trained not trained again; in the end nothing is run."""
    written, done = sessions(breaks_at="first 2")
    assert done == ["timed first", "timed second", "trained first 0", "trained first 1"]
    assert (written["missing_rows"], written["benchmark"]) == (["first", "second"], "uneven")
    accuracies = {"0": {BASE: 0.75, ALL: 0.5}, "1": {BASE: 0.75, ALL: 0.625}}
    assert [row["accuracies"] for row in written["rows"]] == [accuracies, {}]
    assert written["rows"][0]["accuracy_gaps_pct"] == [25.0, 12.5]
    assert written["worst_accuracy_gap_pct"] == 18.75
    result, done = sessions()
    assert done == [*(f"trained second {seed}" for seed in range(3)), "trained first 2"]
    assert result["missing_rows"] == []
    again, done = sessions()
    assert (json.loads(json.dumps(result)), done) == (again, [])
    assert {"date", "machine", "pace_s"} <= again["rows"][0].keys()


def test_rows_of_other_settings_are_run_again(sessions):
    """Both of their parts."""
    sessions()
    changed = sessions.rows[0]
    sessions.rows[0] = Row("first", {name: job.model_copy(update={"name": "x"}) for name, job in changed.jobs.items()})
    assert sessions()[1] == ["timed first", *(f"trained first {seed}" for seed in range(3))]


def test_the_quick_form_neither_reads_nor_writes(sessions):
    """It always runs, and leaves nothing."""
    sessions(quick=True)
    assert sessions(quick=True)[1] == ["timed first", "timed second", "trained first 0", "trained second 0"]
    assert list(sessions.folder.iterdir()) == []
    assert kept_results(sessions.rows) == {}


def test_it_is_said_whether_the_timed_plans_were_trained():
    """Another session's plans are made anew, and may be others."""
    result = row_result(ROW, all_timed())
    alike = {name: Trained(FakePlan(name=name, fidelity="exact"), 0.5) for name in (BASE, ALL)}
    trained = with_accuracy(result, 0, alike)
    assert trained["accuracy_of_timed_plans"]
    anew = alike | {ALL: Trained(FakePlan(name="anew", fidelity="exact"), 0.5)}
    assert not with_accuracy(trained, 1, anew)["accuracy_of_timed_plans"]


def test_a_graph_that_is_not_here_is_missing_and_said(sessions, monkeypatch):
    """The other rows are run."""
    monkeypatch.setattr(uneven, "why_absent", lambda name, _: "second: not here" if name == "second" else None)
    result, done = sessions()
    assert done == ["timed first", *(f"trained first {seed}" for seed in range(3))]
    assert (result["missing_rows"], result["skipped"]) == (["second"], ["second: not here"])
