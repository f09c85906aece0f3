"""Maximum likelihood of a rate that is either fair or slow, from one figure an epoch."""

from __future__ import annotations

import numpy as np

from gnnplan.planner.weather.model import TwoState

_ROUNDS, _CONVERGED = 200, 1e-9
_LEAST_DEVIATION = 1e-3  # of the logarithm: no clock of ours tells seconds apart more finely
_LEAST_SLOWDOWN = 1.1  # two states closer together than this are noise to a plan


def split(seconds: np.ndarray) -> tuple[np.ndarray, float] | None:
    """Which epochs were slow, and the share of the fair rate that was left in them; None where one state explains all.

    A mixture of two normal distributions of the logarithm with one deviation, by expectation maximisation; two are
    believed where the Bayesian information criterion (Schwarz 1978) favours them.

    Args:
        seconds: float64 [E], > 0.

    Returns:
        bool [E], and a share in (0, 1].
    """
    x = np.log(seconds)
    fair, slow, weight = float(np.quantile(x, 0.25)), float(x.max()), 0.5
    deviation = max(float(x.std()), _LEAST_DEVIATION)
    is_slow = np.zeros(len(x))
    for _ in range(_ROUNDS):
        before = fair, slow
        log_odds = _log_density(x, slow, deviation) - _log_density(x, fair, deviation) + np.log(weight / (1 - weight))
        is_slow = 1 / (1 + np.exp(-np.clip(log_odds, -500, 500)))
        weight = float(np.clip(is_slow.mean(), 1e-9, 1 - 1e-9))
        fair, slow = (float(np.average(x, weights=part + 1e-12)) for part in (1 - is_slow, is_slow))
        square = ((1 - is_slow) * (x - fair) ** 2 + is_slow * (x - slow) ** 2).mean()
        deviation = max(float(np.sqrt(square)), _LEAST_DEVIATION)
        if np.allclose((fair, slow), before, rtol=0, atol=_CONVERGED):
            break
    parts = [np.log(weight) + _log_density(x, slow, deviation), np.log(1 - weight) + _log_density(x, fair, deviation)]
    alone = _log_density(x, float(x.mean()), max(float(x.std()), _LEAST_DEVIATION))
    gain, share = float(np.logaddexp(*parts).sum() - alone.sum()), float(np.exp(fair - slow))
    if gain <= np.log(len(x)) or share > 1 / _LEAST_SLOWDOWN:  # two parameters more
        return None
    return is_slow > 0.5, share


def durations(is_slow: np.ndarray, lengths_s: np.ndarray, share: float) -> TwoState | None:
    """The two-state model whose path is known: its mean spells are the time in a state by how often it was left.

    That is the maximum likelihood of a continuous-time chain, with spells that the run cut short counted in; a state
    that was never left counts as left once. None where it was never slow.

    Args:
        is_slow: bool [E]; lengths_s: float64 [E], seconds of each epoch.
    """
    if not is_slow.any():
        return None
    left = np.diff(is_slow.astype(np.int64))
    slow_s, fair_s = float(lengths_s[is_slow].sum()), float(lengths_s[~is_slow].sum())
    num_begun, num_ended = int((left == 1).sum()), int((left == -1).sum())
    if fair_s == 0:
        return None
    return TwoState(share=share, fair_s=fair_s / max(num_begun, 1), slow_s=slow_s / max(num_ended, 1))


def _log_density(x: np.ndarray, mean: float, deviation: float) -> np.ndarray:
    return -0.5 * ((x - mean) / deviation) ** 2 - np.log(deviation * np.sqrt(2 * np.pi))
