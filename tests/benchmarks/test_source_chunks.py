"""The benchmark of source chunks: what counts as sooner, and what a row comes to."""

import pytest
import torch

from benchmarks import source_chunks
from benchmarks._chunks_settings import BASELINES, EXACT, rows_of, variants
from gnnplan.planner.models.module_source import module_of


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


def test_time_to_accuracy_is_of_steps_until_it_is_told():
    """The first evaluation that is near enough counts, or the last one; None where none is."""
    curve = [(9, 0.2), (19, 0.8), (29, 0.7)]
    assert source_chunks._to_accuracy_s({"curve": curve, "step_s": 0.5, "val": 0.7}, 0.75) == 10.0
    assert source_chunks._to_accuracy_s({"curve": curve, "step_s": 0.5, "val": 0.9}, 0.85) == 15.0
    assert source_chunks._to_accuracy_s({"curve": curve, "step_s": 0.5, "val": 0.7}, 0.85) is None


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
    found = source_chunks._summary([row(**of_all)])
    assert (found["graphs"], found["graphs_2x"], found["graphs_better_than_baselines"]) == (1, twice, better)
    assert found["worst_prediction_error"] == 0.1


def test_every_variant_is_a_job():
    """Each asks for what it is, and nothing else may be stale or left out."""
    for each in (rows_of(True)[0], rows_of(False)[-1]):
        for name in variants():
            job = each.job(name, seed=1)
            assert job.pin.refresh_interval == 1
            assert bool(job.pin.asked) == (name != EXACT)
    assert len(rows_of(False)) == 24


def test_rows_of_the_full_form_have_norms():
    """Each names a function that makes its module."""
    for each in rows_of(quick=False):
        module = module_of(each.model, 5, 3, seed=0)
        assert sum(isinstance(part, torch.nn.LayerNorm) for part in module.modules()) == each.num_layers - 1
