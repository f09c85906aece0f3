"""How far measured epochs were from predicted ones: residuals of the benchmarks `prediction` and `planner`, and their
quantiles.

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
        0.0023, 0.0031, 0.0045, 0.005, 0.0057, 0.0062, 0.0069, 0.0091, 0.0118, 0.0118, 0.0133, 0.0177, 0.0183, 0.0215,
        0.0233, 0.0297, 0.0302, 0.0342, 0.0349, 0.0371, 0.0373, 0.043, 0.0442, 0.0547, 0.0582, 0.0594, 0.061, 0.0612,
        0.069, 0.0741, 0.0767, 0.0775, 0.0839, 0.0856, 0.0863, 0.0895, 0.0917, 0.0923, 0.0938, 0.0967, 0.1018, 0.1048,
        0.1093, 0.1133, 0.1211, 0.1222, 0.1336, 0.1398, 0.1439, 0.1454, 0.1552, 0.1565, 0.1619, 0.1667, 0.1762, 0.1851,
        0.1948, 0.1989, 0.2131, 0.2138, 0.2298, 0.2382, 0.2394, 0.2467, 0.252, 0.2786,
    ),
    "calibrated": (
        0.0018, 0.0098, 0.0148, 0.0158, 0.026, 0.0299, 0.0312, 0.0388, 0.0388, 0.0419, 0.0421, 0.0498, 0.0498, 0.0554,
        0.0567, 0.0616, 0.0628, 0.07, 0.0771, 0.0893, 0.0908, 0.0946, 0.0949, 0.0989, 0.1047, 0.1111, 0.1161, 0.1169,
        0.1223, 0.1299, 0.1377, 0.1395, 0.1494, 0.1613, 0.1728, 0.2019,
    ),
    "calibrated elsewhere": (
        0.0, 0.0105, 0.016, 0.0165, 0.0191, 0.0214, 0.0236, 0.0448, 0.0527, 0.0547, 0.0581, 0.0593, 0.0697, 0.0752,
        0.079, 0.0805, 0.0834, 0.0841, 0.0881, 0.089, 0.095, 0.0977, 0.1097, 0.1123, 0.1152, 0.1178, 0.1211, 0.1244,
        0.1276, 0.1384, 0.1507, 0.156, 0.1679, 0.2373, 0.2375, 0.2471,
    ),
}
PAIRS = (
    0.0002, 0.0015, 0.0015, 0.0017, 0.0040, 0.0056, 0.0075, 0.0079, 0.0098, 0.0116, 0.0134, 0.0148, 0.0155, 0.0164,
    0.0165, 0.0183, 0.0233, 0.0243, 0.0294, 0.0295, 0.0299, 0.0309, 0.0310, 0.0318, 0.0324, 0.0339, 0.0370, 0.0392,
    0.0393, 0.0433, 0.0519, 0.0600, 0.0617, 0.0619, 0.0623, 0.0625, 0.0648, 0.0721, 0.0724, 0.0773, 0.0957, 0.0992,
    0.1015, 0.1095, 0.1225, 0.1243, 0.1390, 0.1460, 0.1501, 0.1516,
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
