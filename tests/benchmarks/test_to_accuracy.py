"""The benchmark `to_accuracy` in its quick form, and what it makes of runs."""

import pytest

from benchmarks import to_accuracy

pytestmark = pytest.mark.distributed


@pytest.mark.long
def test_the_quick_form_runs_both_families(monkeypatch, tmp_path):
    """Each for as many epochs as its curve says; nothing is said of which is faster, for the machine may be busy."""
    monkeypatch.setattr(to_accuracy, "OUT", tmp_path)
    result = to_accuracy.main(quick=True)
    (row,) = result["rows"]
    assert (result["settings"], result["skipped"], row["accuracy"]) == (1, [], 0.8)
    assert [way["family"] for way in row["ways"]] == ["full_batch", "mini_batch"]
    for way in row["ways"]:
        assert way["is_reached"]
        assert min(way["epochs"], way["predicted_s"], way["measured_s"]) > 0
        assert way["measured_accuracy"] > 0.7
    assert {row["said"], row["faster"]} <= {"full_batch", "mini_batch"}
    assert row["regret"] >= 0
    assert result["worst_regret"] == row["regret"]
