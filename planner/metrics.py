"""How good a model is, by name: what workers count, and what becomes of the counts of all of them.

Every metric is that of all rows of a split together, whoever has them: sums are added up before they are divided, and
for ROC-AUC all scores are brought together before they are ranked.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

import numpy as np

from gnnplan.planner.losses import OF_CLASSES, OF_TARGETS, is_own, loss_of
from gnnplan.profiles.errors import UserError

if TYPE_CHECKING:
    from gnnplan.planner.graph import Graph

RankMetric = Literal["mrr", "hits@1", "hits@10", "hits@50", "hits@100"]
MetricName = Literal["auto", "accuracy", "f1_micro", "f1_macro", "roc_auc", "mae", "rmse"] | RankMetric
NUM_MASKS = 3


@dataclass(frozen=True)
class Metric:
    """What is said of a metric.

    Args:
        words: its name in a table.
        of_targets: it is of numbers, less is better, and it is no share.
        of_pairs: it is of the ranks of edges among pairs that are none.
    """

    words: str
    of_targets: bool = False
    of_pairs: bool = False

    def is_better(self, value: float, than: float) -> bool:
        """Which of two is better; nothing is better than NaN."""
        if np.isnan(than):
            return not np.isnan(value)
        return value < than if self.of_targets else value > than

    def shown(self, value: float, digits: int = 2) -> str:
        """A value for people."""
        return f"{value:.4g}" if self.of_targets else f"{value:.{digits}%}"


METRICS = {
    "accuracy": Metric("accuracy"),
    "f1_micro": Metric("F1 (micro)"),
    "f1_macro": Metric("F1 (macro)"),
    "roc_auc": Metric("ROC-AUC"),
    "mae": Metric("MAE", of_targets=True),
    "rmse": Metric("RMSE", of_targets=True),
    "mrr": Metric("MRR", of_pairs=True),
    **{f"hits@{most}": Metric(f"hits@{most}", of_pairs=True) for most in (1, 10, 50, 100)},
}


def usual_metric(loss: str, is_multilabel: bool) -> str:
    """The metric of a loss where a job says none."""
    if loss in OF_TARGETS:
        return "rmse" if loss == "mse" else "mae"
    return "f1_micro" if is_multilabel else "accuracy"


def metric_of(name: str, loss: str, graph: Graph) -> str:
    """The metric that a job names, on a graph; `UserError` where it is not of the graph's labels."""
    loss = loss_of(loss, graph)
    if graph.pairs or (name != "auto" and METRICS[name].of_pairs):
        return _metric_of_pairs(name, graph)
    is_of_numbers = loss in OF_TARGETS or (is_own(loss) and graph.is_multilabel and not graph.holds_sets)
    if name == "auto":
        return "rmse" if is_of_numbers and is_own(loss) else usual_metric(loss, graph.is_multilabel)
    if METRICS[name].of_targets != is_of_numbers or (name == "accuracy" and graph.is_multilabel):
        of = "numbers to regress on" if is_of_numbers else "classes" if not graph.is_multilabel else "label sets"
        raise UserError(f"{graph.name}: training.metric {name!r} does not go with labels that are {of}")
    assert loss != OF_CLASSES or not graph.is_multilabel
    return name


def _metric_of_pairs(name: str, graph: Graph) -> str:
    if graph.pairs and (name == "auto" or METRICS[name].of_pairs):
        return "mrr" if name == "auto" else name
    of = "a link prediction, which has mrr and hits@K" if graph.pairs else "labels; pairs are asked for by graph.link"
    raise UserError(f"{graph.name}: training.metric {name!r} does not go with {of}")


def num_sums(name: str, num_classes: int) -> int:
    """Numbers that a worker adds up for one split."""
    return 2 * num_classes if name == "f1_macro" else 2


def values_of(name: str, counted: np.ndarray) -> list[float]:
    """The metric of every split, of what all workers counted together; NaN where a split has no rows.

    Args:
        counted: [3, num_sums]; for ROC-AUC the scores, labels and splits of all rows, [N, 2 C + 3].
    """
    if name == "roc_auc":
        width = (counted.shape[1] - NUM_MASKS) // 2
        scores, labels, splits = np.split(counted, [width, 2 * width], axis=1)
        return [_roc_auc(scores[of > 0], labels[of > 0]) for of in splits.T]
    above, below = np.split(np.asarray(counted, np.float64), 2, axis=1)
    with np.errstate(invalid="ignore", divide="ignore"):
        shares = above / below
    if name == "rmse":
        shares = np.sqrt(shares)
    return [float(np.mean(share[has])) if has.any() else np.nan for share, has in zip(shares, below > 0, strict=True)]


def _roc_auc(scores: np.ndarray, labels: np.ndarray) -> float:
    """The mean over columns that have rows of both kinds, as OGB has it (Mann and Whitney's U over its largest)."""
    from scipy.stats import rankdata  # most runs have no such metric, and this is a second's import

    areas = []
    for score, label in zip(scores.T, labels.T > 0, strict=True):
        positive, negative = int(label.sum()), int((~label).sum())
        if positive and negative:
            above = rankdata(score)[label].sum() - positive * (positive + 1) / 2
            areas.append(above / (positive * negative))
    return float(np.mean(areas)) if areas else np.nan
