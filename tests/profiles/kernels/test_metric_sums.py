"""Sums of metrics add up over batches to what the whole has."""

import pytest
import torch

from gnnplan.profiles.kernels.metrics import scores_of, sums_of


def test_right_classes():
    """Two of three."""
    logits = torch.tensor([[2.0, 1.0], [0.0, 1.0], [0.0, 1.0]])
    assert sums_of("accuracy", logits, torch.tensor([0, 1, 0])).tolist() == [2, 3]


def test_label_sets_are_micro_f1():
    """One true positive, one false positive, one false negative: 2 / (2 + 1 + 1)."""
    logits, y = torch.tensor([[1.0, 1.0], [-1.0, -1.0]]), torch.tensor([[1.0, 0.0], [1.0, 0.0]])
    right, total = sums_of("f1_micro", logits, y)
    assert right / total == pytest.approx(0.5)
    assert sums_of("f1_macro", logits, y).tolist() == [2, 0, 3, 1]


def test_classes_of_which_nobody_is_said():
    """Of three classes: 2 TP, then predicted and actual ones."""
    logits = torch.tensor([[2.0, 1.0, 0.0], [0.0, 1.0, 0.0], [0.0, 1.0, 0.0]])
    assert sums_of("f1_macro", logits, torch.tensor([0, 1, 2])).tolist() == [2, 2, 0, 2, 3, 1]


def test_errors():
    """Of every number, their absolute values or squares."""
    logits, y = torch.tensor([[1.0, 2.0]]), torch.tensor([[0.0, 4.0]])
    assert sums_of("mae", logits, y).tolist() == [3, 2]
    assert sums_of("rmse", logits, y).tolist() == [5, 2]


def test_scores_of_classes_are_probabilities():
    """Each against all others, so that rows can be compared."""
    score, label = scores_of(torch.tensor([[0.0, 0.0], [5.0, 5.0]]), torch.tensor([0, 1]))
    assert score.tolist() == [[0.5, 0.5], [0.5, 0.5]]
    assert label.tolist() == [[1, 0], [0, 1]]


@pytest.mark.parametrize(("metric", "shape"), [("accuracy", (20,)), ("f1_macro", (20,)), ("f1_micro", (20, 5))])
def test_batches_sum_to_the_whole(metric, shape):
    """Any cut."""
    torch.manual_seed(0)
    logits, y = torch.randn(20, 5), torch.randint(0, 2, shape)
    assert torch.equal(
        sums_of(metric, logits, y), sums_of(metric, logits[:7], y[:7]) + sums_of(metric, logits[7:], y[7:])
    )
