"""Figures of the benchmark of source chunks: what counts as sooner, and what a row comes to."""

import pytest

from benchmarks import _chunks_results
from benchmarks._chunks_settings import BASELINES, EXACT


def figures(to_accuracy_s, gap_pct=0.0, **others):
    return {
        "to_accuracy_s": to_accuracy_s,
        "gap_pct": gap_pct,
        "share_error": 0.0,
        "prediction_error": -0.1,
        "memory_error": 0.02,
        **others,
    }


def row(**variants_of):
    return {"row": "a row", "variants": variants_of}


EXACTLY = {"row": "a row", "variant": EXACT, "val": 0.9, "test": 0.8, "curve": [(10, 0.5, 0.4), (20, 0.9, 0.8)]}
CHUNKED = {"row": "a row", "variant": "B = 2", "val": 0.92, "test": 0.81, "curve": [(30, 0.92, 0.81)]}
BASELINE = next(iter(BASELINES))


def training(name, curve, test=0.8):
    return {"row": "a row", "variant": name, "val": curve[-1][1], "test": test, "curve": curve}


def timed(**of):
    return {"a row, 200 Mbit/s": {"part": "a row, 200 Mbit/s", "row": "a row", "variants": of}}


def test_who_comes_near_exact_training_is_timed_on_fewer_hosts():
    """Within half a point of its best validation some time, and of its test accuracy at the end."""
    found = {
        EXACT: EXACTLY,
        "B = 2": training("B = 2", [(10, 0.2, 0.1), (20, 0.896, 0.7)]),
        "B = 5": training("B = 5", [(20, 0.89, 0.8)]),
        "B = 10": training("B = 10", [(20, 0.92, 0.8)], test=0.79),
    }
    assert _chunks_results.near_enough(found) == [EXACT, "B = 2"]
    assert _chunks_results._steps_to(found["B = 2"], EXACTLY) == 20
    assert _chunks_results._steps_to(found["B = 5"], EXACTLY) is None


def test_accuracy_is_that_of_the_training_and_seconds_those_of_the_network():
    """One training serves every network; a row that is not trained yet is none."""
    of = timed(**{EXACT: figures(None, step_s=2.0), "B = 2": figures(None, step_s=0.5)})
    parts = {"trained": {"1": EXACTLY, "2": CHUNKED}, "timed": of, "by_count": {}}
    (row,) = _chunks_results._rows(parts)
    assert [each["to_accuracy_s"] for each in row["variants"].values()] == [40.0, 15.0]
    assert row["variants"]["B = 2"]["gap_pct"] == pytest.approx(-1)
    assert not _chunks_results._rows(parts | {"trained": {"1": EXACTLY}})


def test_the_soonest_is_on_as_many_hosts_as_serve_a_variant_best():
    """On one host a baseline is exact training; who was not timed on fewer hosts has no time there."""
    trainings = {EXACT: EXACTLY, "B = 2": CHUNKED, BASELINE: training(BASELINE, [(30, 0.9, 0.8)])}
    step_s = {EXACT: {"1": 0.6, "2": 1.0}, "B = 2": {"1": 0.7, "2": 0.5}, BASELINE: {"2": 0.1}}
    found = {name: _chunks_results._soonest(name, trainings, step_s) for name in trainings}
    assert found[EXACT] == {"soonest_s": 12.0, "soonest_on": 1}
    assert found["B = 2"] == {"soonest_s": 15.0, "soonest_on": 2}
    assert found[BASELINE] == {"soonest_s": 3.0, "soonest_on": 2}
    del step_s["B = 2"], step_s[BASELINE]
    assert _chunks_results._soonest(BASELINE, trainings, step_s) == {"soonest_s": 12.0, "soonest_on": 1}
    assert _chunks_results._soonest("B = 2", trainings, step_s) == {"soonest_s": None, "soonest_on": None}


def test_one_host_may_take_what_four_had_gained():
    """The headline is of the best numbers of hosts; a row not timed on fewer is not in it."""
    variants = {EXACT: figures(None, step_s=2.0), "B = 2": figures(None, step_s=0.5)}
    variants |= dict.fromkeys(BASELINES, figures(None, step_s=2.0))
    variants = {name: each | {"num_chunks": 1, "steps_per_s": 1, "peak_bytes": 1} for name, each in variants.items()}
    trained = {"1": EXACTLY, "2": CHUNKED} | {name: EXACTLY | {"variant": name} for name in BASELINES}
    parts = {"trained": trained, "timed": timed(**variants), "by_count": {}}
    found = _chunks_results.summary(parts)
    assert (found["graphs"], found["on_all_hosts"]["graphs"], found["on_all_hosts"]["graphs_2x"]) == (0, 1, 1)
    name = "a row, 200 Mbit/s"
    counts = {EXACT: {"1": 0.5, "4": 2.0}, "B = 2": {"1": 0.6, "4": 0.5}}
    found = _chunks_results.summary(parts | {"by_count": {name: {"part": name, "step_s": counts}}})
    assert (found["graphs"], found["graphs_2x"], found["graphs_better_than_baselines"]) == (1, 0, 0)
    assert found["on_all_hosts"]["graphs_2x"] == 1


@pytest.mark.parametrize(
    ("chunked", "twice", "better"),
    [
        (figures(1.0), 1, 1),
        (figures(2.5), 0, 1),
        (figures(3.5), 0, 0),
        (figures(1.0, gap_pct=0.6), 0, 0),
        (figures(None), 0, 0),
    ],
)
def test_rows_are_counted_by_time_and_final_accuracy(chunked, twice, better):
    """Half the time of exact training; sooner than baselines that come to it; within half a point at the end."""
    late, drawn = BASELINES
    of_all = {EXACT: figures(4.0), "B = 5": chunked, late: figures(3.0), drawn: figures(None)}
    found = _chunks_results._counted([row(**of_all)])
    assert (found["graphs"], found["graphs_2x"], found["graphs_better_than_baselines"]) == (1, twice, better)


def test_a_graph_counts_on_a_network_where_some_model_does():
    """Rows of one graph are one; what a chunked row comes to on another network says nothing."""
    soon, late = {EXACT: figures(4.0), "B = 5": figures(1.0)}, {EXACT: figures(4.0), "B = 5": figures(3.0)}
    others = dict.fromkeys(BASELINES, figures(None))
    names = {
        "sage of 3 layers on a, 200 Mbit/s": soon,
        "gat of 3 layers on a, 200 Mbit/s": late,
        "sage of 3 layers on b, 200 Mbit/s": late,
        "sage of 3 layers on a, 1000 Mbit/s": late,
    }
    found = _chunks_results._counted([{"row": name, "variants": {**of, **others}} for name, of in names.items()])
    assert found["by_network"] == {
        "200 Mbit/s": {"graphs": 2, "graphs_2x": 1, "better_than_baselines": 2},
        "1000 Mbit/s": {"graphs": 1, "graphs_2x": 0, "better_than_baselines": 1},
    }
