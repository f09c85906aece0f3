"""What gnnplan ships of residuals is what the benchmarks `prediction` and `planner` kept."""

import json

import pytest

from benchmarks import intervals
from benchmarks._results import RESULTS
from gnnplan.planner.interval.residuals import PAIRS, RESIDUALS


def test_shipped_tables_are_the_measured_ones():
    """Kind by kind, as the benchmark makes them from the kept result."""
    shipped = {**RESIDUALS, "pairs": PAIRS}
    assert shipped.keys() == intervals.KINDS.keys()
    for kind, of in intervals.KINDS.items():
        assert list(shipped[kind]) == pytest.approx(intervals.shipped(intervals.clusters_of(kind), of), abs=1e-9)


def test_clusters_that_set_nothing_are_covered():
    """Nine in ten of the measured epochs of the others, as the kept result says."""
    found = intervals.main(quick=True)
    kept = json.loads((RESULTS / "intervals.json").read_text())
    for kind in intervals.KINDS:
        assert found[kind] == kept[kind]
    for kind in RESIDUALS:
        assert found[kind]["coverage"] >= 0.85
        assert found[kind]["mean_coverage_over_splits"] >= 0.85
