"""How far accuracies are from those of one part."""

import pytest

from benchmarks.source_chunks_parts import summary


def test_the_worst_row_counts():
    """In points, either way; a row without one part says nothing yet."""
    tests = {("a", 1): 0.9, ("a", 4): 0.904, ("b", 1): 0.8, ("b", 2): 0.793, ("c", 2): 0.1}
    trained = {str(key): {"row": key[0], "parts": key[1], "test": test} for key, test in tests.items()}
    found = summary({"trained": trained})
    assert found["worst_off_points"] == pytest.approx(0.7)
    assert found["accuracies"]["a"] == pytest.approx({"1": 90.0, "4": 90.4})
    assert summary({"trained": {}})["worst_off_points"] is None
