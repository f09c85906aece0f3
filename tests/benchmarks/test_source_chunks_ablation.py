"""What states are worth, beside chunks without them."""

import pytest

from benchmarks import source_chunks_ablation
from benchmarks.source_chunks_ablation import PAPER, main, summary


def test_quick_form_trains_every_variant():
    """All begin with the same weights, and each comes to an accuracy of its own."""
    record = main(quick=True)
    (row,) = record["rows"]
    assert [each["variant"] for each in row["variants"]] == ["exact", "kept", "kept, as published", "nothing kept"]
    assert len({each["curve"][-1]["train"] for each in row["variants"]}) > 1
    assert record["missing"] == record["skipped"] == []


def test_gains_are_points_of_the_test_accuracy():
    """Of what is kept over nothing, and over exact training."""
    tests = {"exact": 0.9, "kept": 0.88, "nothing kept": 0.8}
    row = {"part": "sage", "variants": [{"variant": name, "test": value} for name, value in tests.items()]}
    found = summary({"rows": {"sage": row}})
    assert found["kept_over_nothing_points"] == {"sage": pytest.approx(8)}
    assert found["kept_over_exact_points"] == {"sage": pytest.approx(-2)}
    assert {f"{name}_points" for of in PAPER.values() for name in of} < set(found)


def test_rows_are_named_apart():
    """So that each is kept under its own name."""
    names = [each.name for each in source_chunks_ablation.settings_of(quick=False)]
    assert len(names) == len(set(names)) == 6
