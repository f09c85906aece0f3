"""The benchmark of source chunks: what counts as sooner, and what a row comes to."""

from dataclasses import replace

import pytest
import torch
from standing_in import stand_in

from benchmarks import _chunks_graphs, _chunks_models, _common, source_chunks
from benchmarks._chunks_settings import BASELINES, EXACT, NETWORKS, rows_of, variants
from gnnplan.planner.cluster import Cluster, DeviceSpec, HostSpec
from gnnplan.planner.models.module_source import module_of
from tests import warm


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


@pytest.mark.long
@pytest.mark.distributed
def test_the_quick_form_trains_and_times_every_variant(monkeypatch, tmp_path):
    """On two workers here; a chunk's step sends its share of the rows, and nothing is kept."""
    monkeypatch.setattr(_common, "profile_machine", lambda **_: stand_in())
    monkeypatch.setattr(source_chunks, "OUT", tmp_path)
    with warm.runs():
        result = source_chunks.main(quick=True)
    (row,) = result["rows"]
    assert list(row["variants"]) == [EXACT, "B = 2", "B = 5", *BASELINES]
    assert (result["graphs"], result["missing"], result["skipped"]) == (1, [], [])
    assert result["worst_share_error"] < 0.02
    for each in row["variants"].values():
        assert 0.5 < each["val"] <= 1
        assert each["passes_per_s"] * each["num_chunks"] == pytest.approx(each["steps_per_s"])


def test_time_to_accuracy_is_of_steps_until_it_is_told():
    """The first evaluation that is near enough counts; None where none is."""
    curve = [(10, 0.2, 0.1), (20, 0.8, 0.7), (30, 0.7, 0.9)]
    assert source_chunks._to_accuracy_s(curve, 0.75, 0.5) == 10.0
    assert source_chunks._to_accuracy_s(curve, 0.85, 0.5) is None


def test_accuracy_is_that_of_the_training_and_seconds_those_of_the_network():
    """One training serves every network; a row that is not trained yet is none."""
    curve = [(10, 0.5, 0.4), (20, 0.9, 0.8)]
    exact = {"row": "a row", "variant": EXACT, "val": 0.9, "test": 0.8, "curve": curve}
    chunked = {"row": "a row", "variant": "B = 2", "val": 0.92, "test": 0.81, "curve": [(30, 0.92, 0.81)]}
    of = {EXACT: figures(None, step_s=2.0), "B = 2": figures(None, step_s=0.5)}
    timed = {"a row, 200 Mbit/s": {"part": "a row, 200 Mbit/s", "row": "a row", "variants": of}}
    (row,) = source_chunks._rows({"trained": {"1": exact, "2": chunked}, "timed": timed})
    assert [each["to_accuracy_s"] for each in row["variants"].values()] == [40.0, 15.0]
    assert row["variants"]["B = 2"]["gap_pct"] == pytest.approx(-1)
    assert not source_chunks._rows({"trained": {"1": exact}, "timed": timed})


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
    found = source_chunks._counted([row(**of_all)])
    assert (found["graphs"], found["graphs_2x"], found["graphs_better_than_baselines"]) == (1, twice, better)
    assert found["worst_prediction_error"] == 0.1


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
    found = source_chunks._counted([{"row": name, "variants": {**of, **others}} for name, of in names.items()])
    assert found["by_network"] == {
        "200 Mbit/s": {"graphs": 2, "graphs_2x": 1, "better_than_baselines": 2},
        "1000 Mbit/s": {"graphs": 1, "graphs_2x": 0, "better_than_baselines": 1},
    }


def test_every_variant_is_a_job():
    """Each asks for what it is, and nothing else may be stale or left out."""
    for each in (rows_of(True)[0], rows_of(False)[-1]):
        for name in variants():
            job = each.job(name, each.steps)
            assert job.pin.refresh_interval == 1
            assert bool(job.pin.asked) == (name != EXACT)
    assert len(rows_of(False)) * len(NETWORKS) == 24


def test_a_row_is_the_same_wherever_its_files_lie(monkeypatch, tmp_path):
    """So that another checkout goes on; other steps are another row."""
    row = rows_of(quick=False)[0]
    before = row.fingerprint("B = 2")
    monkeypatch.setattr(_chunks_graphs, "_FOLDER", tmp_path)
    monkeypatch.setattr(_chunks_models, "__file__", str(tmp_path / "models.py"))
    assert row.fingerprint("B = 2") == before
    assert before not in (replace(row, steps=7).fingerprint("B = 2"), row.fingerprint("B = 5"))


def test_rows_of_the_full_form_have_norms():
    """Each names a function that makes its module."""
    for each in rows_of(quick=False):
        module = module_of(each.model, 5, 3, seed=0)
        assert sum(isinstance(part, torch.nn.LayerNorm) for part in module.modules()) == each.num_layers - 1


def test_more_workers_than_cores_may_train_here(monkeypatch):
    """The full form trains by four on any machine; one that is timed has no more workers than cores."""
    two = Cluster(hosts=(HostSpec(name="here", devices=(DeviceSpec(catalog="t4", count=2),)),))
    monkeypatch.setattr(source_chunks, "this_machine", lambda *_, **__: two)
    ((device,),) = (host.devices for host in source_chunks.unlimited(4).hosts)
    assert device.count == 4
