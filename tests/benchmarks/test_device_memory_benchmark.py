"""A quarter of a pretended GPU's memory is enough, and the planner finds how."""

import pytest

from benchmarks import device_memory


def test_the_quick_form_stays_below_its_limit():
    """Nothing is pinned in the job, rows come to lie in the host's memory, and losses are those of the whole."""
    result = device_memory.main(quick=True)
    (row,) = result["rows"]
    assert result["never_above_limit"] is True
    assert row["peak_bytes"] <= row["limit_bytes"] < row["whole_bytes"] / 3.9
    assert row["pinned_bytes"] > 0
    assert row["num_chunks"] > 1
    assert result["worst_memory_error"] == pytest.approx(0, abs=0.02)
    assert result["worst_loss_rel"] < 1e-5


def test_the_worst_row_counts():
    """One worker above its limit is enough, and errors count either way."""
    rows = [
        {"peak_bytes": 10, "limit_bytes": 10, "memory_error": -0.3, "loss_rel": 1e-7},
        {"peak_bytes": 11, "limit_bytes": 10, "memory_error": 0.2, "loss_rel": 1e-6},
    ]
    assert device_memory.totals(rows) == {
        "never_above_limit": False,
        "worst_memory_error": -0.3,
        "worst_loss_rel": 1e-6,
    }
