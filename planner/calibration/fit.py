"""One factor per operator from tasks that are sums of operators: bounded, robust ridge regression."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

LEAST_FACTOR, MOST_FACTOR = 0.25, 4.0
_RIDGE = 1e-4  # at the least deviation of misses; it grows with their variance, so that noise moves factors little
# Huber's: misses count squared within 1.345 standard deviations, linearly beyond. No model of a task is better
# than 5%, and below it a factor that the ridge holds back would pass for an outlier.
_HUBER, _LEAST_DEVIATION = 1.345, 0.05
_ROUNDS = 3


@dataclass(frozen=True)
class Sample:
    """One measured task.

    Args:
        parts: predicted seconds by operator.
        measured_s: what they took in all, > 0.
        weight: of its squared relative error.
        now_s: predicted by the profiles as they are corrected so far; of no consequence to `fit`.
    """

    parts: dict[str, float]
    measured_s: float
    weight: float
    now_s: float = 0.0


def fit(samples: Sequence[Sample]) -> dict[str, float]:
    """The factors within [0.25, 4] that explain the samples best, each held near 1 by a ridge.

    Minimises sum_i weight_i (sum_o f_o part_io / measured_i - 1)^2 + ridge sum_o (f_o - 1)^2, so that an operator which
    few, only mixed or only noisy samples show moves little. Misses are taken relative to the prediction
    where that was longer; outliers count linearly, by Huber's weights.
    """
    names = sorted({name for sample in samples for name in sample.parts})
    if not names:
        return {}
    shares = np.array([[s.parts.get(name, 0.0) / s.measured_s for name in names] for s in samples])
    # Relative to the longer of predicted and measured: else one span that came out short outweighs all others.
    scale = np.minimum(1.0, 1 / shares.sum(1))
    weights = np.array([sample.weight for sample in samples]) * scale**2
    factors, trust, deviation = np.ones(len(names)), np.ones(len(samples)), _LEAST_DEVIATION
    for _ in range(_ROUNDS):
        factors = _solve(shares, weights * trust, _RIDGE * (deviation / _LEAST_DEVIATION) ** 2)
        misses = np.abs(shares @ factors - 1) * scale
        deviation = max(1.4826 * float(np.median(misses)), _LEAST_DEVIATION)
        trust = _HUBER * deviation / np.maximum(misses, _HUBER * deviation)
    return dict(zip(names, factors.tolist()))


def _solve(shares: np.ndarray, weights: np.ndarray, ridge: float) -> np.ndarray:
    """Factors [O] of shares [S, O] under weights [S]; solved for `factor - 1`, so that no miss is exactly no change."""
    from scipy.optimize import lsq_linear  # it takes a third of a second to import, and few commands come here

    num_operators = shares.shape[1]
    root = np.sqrt(weights)
    matrix = np.vstack([shares * root[:, None], np.sqrt(ridge) * np.eye(num_operators)])
    wanted = np.concatenate([(1 - shares.sum(1)) * root, np.zeros(num_operators)])
    bounds = (LEAST_FACTOR - 1, MOST_FACTOR - 1)
    found = lsq_linear(matrix, wanted, bounds=bounds, method="bvls").x
    return 1 + np.clip(found, *bounds)
