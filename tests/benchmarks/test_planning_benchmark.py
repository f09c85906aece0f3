"""The benchmark of what planning costs, in its quick form."""

import pytest

from benchmarks import planning
from benchmarks._first_edition import checkout
from benchmarks._planning_before import mean_ratio


@pytest.mark.long
def test_the_quick_form_plans_here_and_in_the_first_edition(tmp_path, monkeypatch):
    """A graph of R-MAT in a process of its own; and a setting beside the first edition, where the history has it."""
    monkeypatch.setattr(planning, "OUT", tmp_path)
    found = planning.main(quick=True)
    (row,) = found["rows"]
    assert row["num_edges"] == 200_000
    assert 0 < row["load_s"] < row["seconds"]
    assert row["peak_bytes"] > 2**27
    assert row["num_candidates"] > 10
    assert len(found["before"]) == (checkout() is not None)
    assert found["over_before"] == mean_ratio(found["before"])


def test_ratios_are_averaged_as_ratios():
    """Twice as long and half as long is as long."""
    assert mean_ratio([{"ratio": 2.0}, {"ratio": 0.5}]) == 1
    assert mean_ratio([]) is None
