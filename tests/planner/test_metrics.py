"""Metrics of all workers' rows together are those of one process, by their textbook definitions."""

import numpy as np
import pytest
import torch

from gnnplan.planner.metrics import METRICS, metric_of, values_of
from gnnplan.planner.models.forward import measured_metric
from gnnplan.planner.training_spec import TrainingSpec
from gnnplan.profiles.errors import UserError
from gnnplan.runtime.reference import dense_features
from tests.planner.models.test_planned_modules import Dropped
from tests.planner.models.trained_modules import made
from tests.planner.planned_training import LAYOUTS, graph_of, planned
from tests.runtime.execution.threads import play_on_threads

CASES = [
    ("accuracy", "classes", "auto"),
    ("f1_micro", "classes", "auto"),
    ("f1_macro", "classes", "auto"),
    ("roc_auc", "classes", "auto"),
    ("f1_micro", "sets", "auto"),
    ("f1_macro", "sets", "auto"),
    ("roc_auc", "sets", "auto"),
    ("mae", "targets", "mse"),
    ("rmse", "targets", "l1"),
]


def by_definition(metric, logits, y):
    """Row by row, in numpy: F1 by precision and recall, ROC-AUC by comparing every pair."""
    if metric == "accuracy":
        return np.mean(logits.argmax(1) == y)
    if metric in ("mae", "rmse"):
        return np.mean(abs(logits - y)) if metric == "mae" else np.sqrt(np.mean((logits - y) ** 2))
    right = y > 0 if y.ndim == 2 else np.eye(logits.shape[1], dtype=bool)[y]
    if metric == "roc_auc":
        scores = logits if y.ndim == 2 else np.exp(logits) / np.exp(logits).sum(1, keepdims=True)
        return np.mean([pairs(score[label], score[~label]) for score, label in zip(scores.T, right.T)])
    said = logits > 0 if y.ndim == 2 else np.eye(logits.shape[1], dtype=bool)[logits.argmax(1)]
    if metric == "f1_micro":
        return f1(said.ravel(), right.ravel())
    return np.mean([f1(*both) for both in zip(said.T, right.T) if both[0].any() or both[1].any()])


def f1(said, right):
    if not (said & right).any():
        return 0.0
    precision, recall = (said & right).sum() / said.sum(), (said & right).sum() / right.sum()
    return 2 * precision * recall / (precision + recall)


def pairs(above, below):
    return np.mean((above[:, None] > below) + 0.5 * (above[:, None] == below))


@pytest.mark.long
@pytest.mark.parametrize(("metric", "labels", "loss"), CASES)
@pytest.mark.parametrize(("num_workers", "pins"), LAYOUTS[:3], ids=str)
def test_all_rows_count_once(metric, labels, loss, num_workers, pins, tmp_path):
    """Of the model as it begins, in both executors: no worker's own figure is averaged."""
    graph, module = graph_of(labels), made(Dropped, graph_of(labels))
    training = TrainingSpec(epochs=1, metric=metric, loss=loss)
    plan = planned(module, graph, training, num_workers, pins, tmp_path)
    assert measured_metric(plan.cycle) == metric
    with torch.no_grad():
        edges = torch.from_numpy(graph.edge_index).long()
        logits = module.eval()(torch.from_numpy(dense_features(graph)), edges).numpy()
    masks = (graph.train_mask, graph.val_mask, graph.test_mask)
    want = [by_definition(metric, logits[mask], graph.y[mask]) for mask in masks]
    counted = [each.numpy() for each in plan.executor().run("evaluate")["hits"]]
    counted += play_on_threads(
        plan.cycle, plan.inputs, plan.start, lambda each, _: each.run("evaluate")["hits"].numpy()
    )
    for each in counted:
        assert values_of(metric, each) == pytest.approx(want, abs=1e-6)


def test_splits_without_rows_have_none():
    """NaN, which is better than nothing."""
    assert np.isnan(values_of("accuracy", np.array([[1, 2], [0, 0], [2, 2]]))[1])
    assert np.isnan(values_of("roc_auc", np.zeros((4, 5)))).all()
    assert METRICS["accuracy"].is_better(0.1, np.nan)
    assert not METRICS["accuracy"].is_better(np.nan, np.nan)


def test_less_of_an_error_is_better():
    """More of a share is; each is shown as what it is."""
    assert METRICS["rmse"].is_better(0.1, 0.2)
    assert METRICS["roc_auc"].is_better(0.2, 0.1)
    assert (METRICS["rmse"].shown(0.25), METRICS["roc_auc"].shown(0.25)) == ("0.25", "25.00%")


@pytest.mark.parametrize(
    ("name", "labels", "loss"),
    [("accuracy", "sets", "auto"), ("mae", "classes", "auto"), ("roc_auc", "targets", "mse")],
)
def test_metrics_know_their_labels(name, labels, loss):
    """Else they are refused, with the labels there are."""
    with pytest.raises(UserError, match=f"training.metric '{name}' does not go with labels that are"):
        metric_of(name, loss, graph_of(labels))
