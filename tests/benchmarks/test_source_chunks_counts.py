"""What is counted of source chunks, on graphs that one can count by hand."""

import numpy as np
import pytest

from benchmarks.source_chunks_counts import Loads, _histogram, _renewed_by_chunks, ages

SOURCE, TARGET = np.array([0, 0, 0, 1, 2, 3]), np.array([2, 3, 1, 2, 0, 0])
PART = np.array([0, 0, 1, 1])


def test_a_row_is_sent_once_to_each_part():
    """Vertex 0 is gathered twice by part 1; its own part needs nothing sent."""
    assert Loads(4, SOURCE, TARGET, PART).rows.tolist() == [1, 1, 1, 1]


def test_imbalance_is_the_most_over_the_fewest():
    """Of vertices 0, 1 and 2 one part sends two rows and the other one; of vertex 3 one part sends a row."""
    loads = Loads(4, SOURCE, TARGET, PART)
    assert loads.imbalance(np.zeros(4, int), 1) == 1.0
    assert loads.imbalance(np.array([0, 0, 0, 1]), 2) == pytest.approx((2 / 1 + 1 / 1) / 2)


def test_shares_are_of_the_furthest_step():
    """Three of four rows, and five of six edges, where half of each were even."""
    rows, edges = Loads(4, SOURCE, TARGET, PART).share_errors(np.array([0, 0, 0, 1]), 2)
    assert rows == pytest.approx(0.5)
    assert edges == pytest.approx(2 * 5 / 6 - 1)


def test_ages_are_steps_since_a_turn():
    """Who never had one is older than the training."""
    age = ages(iter([np.array([0]), np.array([1]), np.array([0])]), 3)
    assert age.tolist() == [0, 1, 3]
    assert _histogram(age) == pytest.approx([1 / 3, 2 / 3, 0, 0, 0, 0])


def test_a_target_is_as_old_as_its_freshest_neighbour():
    """With every vertex a neighbour of target 3, each step renews it."""
    source, target = np.array([0, 1, 2, 4, 5]), np.full(5, 3)
    age = ages(_renewed_by_chunks(6, source, target, 2), 6)
    assert age[3] <= 1
