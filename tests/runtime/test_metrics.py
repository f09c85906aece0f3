"""Hits sum over batches to what the whole has."""

import pytest
import torch

from gnnplan.runtime.metrics import hits


def test_class_ids():
    """Two of three."""
    logits = torch.tensor([[2.0, 1.0], [0.0, 1.0], [0.0, 1.0]])
    assert hits(logits, torch.tensor([0, 1, 0])).tolist() == [2, 3]


def test_label_sets_are_micro_f1():
    """One true positive, one false positive, one false negative: 2 / (2 + 1 + 1)."""
    right, total = hits(torch.tensor([[1.0, 1.0], [-1.0, -1.0]]), torch.tensor([[1.0, 0.0], [1.0, 0.0]]))
    assert right / total == pytest.approx(0.5)


@pytest.mark.parametrize("shape", [(20,), (20, 5)])
def test_batches_sum_to_the_whole(shape):
    """Any cut."""
    torch.manual_seed(0)
    logits, y = torch.randn(20, 5), torch.randint(0, 2, shape)
    assert torch.equal(hits(logits, y), hits(logits[:7], y[:7]) + hits(logits[7:], y[7:]))
