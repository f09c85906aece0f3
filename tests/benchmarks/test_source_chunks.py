"""The benchmark of source chunks: its rows, jobs and workers."""

from dataclasses import replace

import pytest
import torch
from standing_in import stand_in

from benchmarks import _chunks_graphs, _chunks_models, _common, source_chunks
from benchmarks._chunks_settings import BASELINES, EXACT, NETWORKS, rows_of, variants
from gnnplan.planner.cluster import Cluster, DeviceSpec, HostSpec
from gnnplan.planner.models.module_source import module_of
from tests import warm


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
    (by_count,) = result["by_count"]
    assert by_count["step_s"][EXACT].keys() == {"1", "2"}
    assert row["variants"][EXACT]["soonest_s"] > 0
    for each in row["variants"].values():
        assert 0.5 < each["val"] <= 1
        assert each["passes_per_s"] * each["num_chunks"] == pytest.approx(each["steps_per_s"])


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
