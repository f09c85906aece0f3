"""Figures printed in CaPGNN: the groups of devices of its table 4, and seconds of 200 epochs from its table 7.

Of table 4 only the number of crosses in a row survives in the text at hand, not their columns. x8 is certain, x4 is
confirmed by its section 5.10, the others are taken in the order of the columns.
"""

from __future__ import annotations

_COLUMNS = ("rtx-3090", "rtx-3090", "a40", "a40", "rtx-3060", "rtx-3060", "gtx-1660ti", "gtx-1660ti")

GROUPS: dict[str, tuple[str, ...]] = {f"x{size}": _COLUMNS[:size] for size in range(2, 9)}
"""Catalog names of the devices of each group; the paper's label T4 means the A40."""

# (model, data set): seconds on x2 ... x8 of METIS in equal parts with a plain halo exchange, and of CaPGNN.
# Reddit is "Rt", Flickr of 89,250 vertices "Fr", CoraFull "Cl", CoauthorPhysics "Cs".
_TOTALS_S: dict[tuple[str, str], tuple[tuple[float, ...], tuple[float, ...]]] = {
    ("gcn", "Cl"): (
        (15.86, 22.29, 22.30, 21.52, 22.74, 25.19, 25.47),
        (8.85, 12.25, 15.72, 19.85, 22.22, 27.44, 29.94),
    ),
    ("gcn", "Fr"): (
        (48.65, 54.49, 47.40, 47.52, 42.89, 42.79, 41.40),
        (19.13, 22.58, 22.29, 26.09, 21.00, 28.08, 36.81),
    ),
    ("gcn", "Cs"): (
        (41.91, 63.07, 58.00, 62.33, 67.18, 63.50, 62.89),
        (10.91, 14.58, 17.58, 19.51, 24.21, 33.03, 37.42),
    ),
    ("gcn", "Rt"): (
        (151.19, 150.89, 151.90, 153.80, 175.85, 162.23, 154.28),
        (44.83, 44.01, 53.98, 45.61, 66.16, 62.28, 62.06),
    ),
    ("sage", "Cl"): (
        (19.00, 25.09, 23.97, 26.77, 27.39, 31.51, 32.59),
        (10.77, 16.13, 17.60, 22.83, 26.21, 42.15, 41.63),
    ),
    ("sage", "Fr"): (
        (48.29, 53.30, 48.61, 50.04, 45.51, 43.81, 42.50),
        (20.51, 24.41, 22.45, 29.06, 25.37, 32.97, 42.62),
    ),
    ("sage", "Cs"): (
        (45.91, 60.05, 65.93, 67.40, 69.75, 70.78, 70.72),
        (15.14, 18.85, 19.67, 24.17, 28.38, 52.97, 54.29),
    ),
    ("sage", "Rt"): (
        (179.69, 148.65, 146.56, 156.22, 182.81, 159.59, 156.95),
        (43.93, 42.91, 52.93, 47.02, 69.42, 76.02, 72.75),
    ),
}


def speedup(model: str, dataset: str, group: str) -> float:
    """Of CaPGNN over the plain exchange (its "Vanilla"), as printed."""
    plain_s, capgnn_s = (totals[int(group[1:]) - 2] for totals in _TOTALS_S[model, dataset])
    return plain_s / capgnn_s
