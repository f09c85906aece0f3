"""Ranks are those of counting pair by pair."""

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from gnnplan.profiles.kernels.ranks import ranks, sums_of_ranks, sums_of_splits


def by_counting(scores, heads, asked, others):
    found = []
    for number in np.flatnonzero(asked):
        rest = scores[others & (heads == heads[number])]
        found.append(1 + (rest > scores[number]).sum() + 0.5 * (rest == scores[number]).sum())
    return np.array(found)


@given(st.integers(0, 60), st.integers(1, 6), st.integers(1, 8), st.integers(0, 2**32))
def test_ranks_are_counted(count, num_heads, num_values, seed):
    """With equal scores, heads in any order, and heads without others."""
    rng = np.random.default_rng(seed)
    scores, heads = rng.integers(-num_values, num_values, count) / 4, rng.integers(0, num_heads, count)
    asked = rng.random(count) < 0.5
    got = ranks(*map(torch.from_numpy, (scores, heads, asked, ~asked)))
    assert np.allclose(got.numpy(), by_counting(scores, heads, asked, ~asked))


@pytest.mark.parametrize(("metric", "total"), [("mrr", 1 + 0.5 + 0.1), ("hits@1", 1), ("hits@10", 3), ("hits@50", 3)])
def test_metrics_are_sums(metric, total):
    """Of one over the rank, or of ranks that are low enough."""
    above, below = sums_of_ranks(metric, torch.tensor([1.0, 2.0, 10.0], dtype=torch.float64)).tolist()
    assert above == pytest.approx(total)
    assert below == 3


def test_splits_are_apart():
    """Each has its edges alone, among the same others; a split may have none."""
    scores = torch.tensor([[3.0], [1.0], [2.0], [0.0]])
    told = torch.tensor([[1.0, 0, 0, 0], [0, 1, 0, 0], [0, 0, 0, 1], [0, 0, 0, 1]])
    got = sums_of_splits("mrr", scores, torch.zeros(4, dtype=torch.int64), told)
    assert got.tolist() == [[1, 1], [0.5, 1], [0, 0]]
