"""How far measured epochs were from predicted ones: residuals of the benchmark `prediction`, and their quantiles.

A residual is |log(measured / predicted)| of the median epoch of a run. These are of the clusters in even places; the
others check them (`python -m benchmarks intervals`, which also makes these tables).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from statistics import NormalDist
from typing import Literal

Residuals = Literal["profiled", "calibrated", "calibrated elsewhere"]
"""By which profiles: as measured; calibrated by runs of the same graph and model; calibrated by runs of others."""

# fmt: off
RESIDUALS: dict[Residuals, tuple[float, ...]] = {
    "profiled": (
        0.0005, 0.0008, 0.0016, 0.0091, 0.0096, 0.0108, 0.023, 0.0236, 0.0245, 0.0248, 0.0256, 0.0264, 0.0275, 0.0292,
        0.0296, 0.0319, 0.0337, 0.0347, 0.0363, 0.0367, 0.0367, 0.0385, 0.0428, 0.0476, 0.0548, 0.0764, 0.0805, 0.0807,
        0.0811, 0.0872, 0.1016, 0.1018, 0.1121, 0.1186, 0.1345, 0.2166,
    ),
    "calibrated": (
        0.0034, 0.0042, 0.0043, 0.0047, 0.0058, 0.0127, 0.0142, 0.0143, 0.0145, 0.0145, 0.0157, 0.0162, 0.0179, 0.0184,
        0.0193, 0.0197, 0.0218, 0.0242, 0.0247, 0.0265, 0.0289, 0.0302, 0.0314, 0.0356, 0.0357, 0.036, 0.0366, 0.0415,
        0.0701, 0.0704, 0.0727, 0.0743, 0.0752, 0.1024, 0.1323, 0.1343,
    ),
    "calibrated elsewhere": (
        0.0002, 0.003, 0.0056, 0.0063, 0.0086, 0.0091, 0.0184, 0.0187, 0.0195, 0.0216, 0.0251, 0.0254, 0.0296, 0.0299,
        0.031, 0.0329, 0.0345, 0.0441, 0.0503, 0.0578, 0.061, 0.0739, 0.0958, 0.0993, 0.1163, 0.1182, 0.1303, 0.1517,
        0.1852, 0.1934, 0.2007, 0.2156, 0.2171, 0.2217, 0.2229, 0.2531,
    ),
}
PAIRS = (
    0.0002, 0.0003, 0.0004, 0.0016, 0.0020, 0.0028, 0.0030, 0.0044, 0.0048, 0.0048, 0.0060, 0.0065, 0.0067, 0.0096,
    0.0107, 0.0124, 0.0137, 0.0171, 0.0181, 0.0202, 0.0209, 0.0211, 0.0211, 0.0219, 0.0220, 0.0270, 0.0280, 0.0288,
    0.0297, 0.0309, 0.0318, 0.0327, 0.0329, 0.0336, 0.0344, 0.0360, 0.0366, 0.0374, 0.0393, 0.0404, 0.0420, 0.0487,
    0.0507, 0.0538, 0.0568, 0.0813, 0.0880, 0.0981, 0.1046, 0.1355,
)
# fmt: on
"""The same of pairs of plans for one graph and model on one cluster: how far the ratio of their epochs was off."""


def quantile(residuals: Sequence[float], level: float) -> float:
    """What a new residual is within, with probability `level` or more if it is drawn as these were.

    Split conformal prediction (Vovk et al. 2005; Lei et al. 2018, Theorem 2): the ceil((n + 1) level)-th smallest of n.
    Where that is more than n, the largest is stretched as a normal deviate would be.

    Args:
        residuals: ascending, one at least.
    """
    assert 0 < level < 1, level
    count = len(residuals)
    rank = math.ceil((count + 1) * level)
    if rank <= count:
        return residuals[rank - 1]
    return residuals[-1] * deviates(level) / deviates(count / (count + 1))


def deviates(level: float) -> float:
    """Within how many standard deviations a normal variable is with probability `level`."""
    return NormalDist().inv_cdf((1 + level) / 2)
