"""CaPGNN's own cost, for comparison: capabilities divided by the largest of their kind, so without a unit."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from benchmarks.oracles.linear_cost import LinearCost
from gnnplan.planner.costs import OperatorCosts
from gnnplan.profiles.catalog.traffic import PAPER_BYTES, PAPER_DEGREE, PAPER_EXTENT

ALPHA = 0.35  # of SpMM against MM, as in the paper's code


def paper_cost(num_local: np.ndarray, local_edges: np.ndarray, costs: Sequence[OperatorCosts]) -> LinearCost:
    """lambda_i = T_comp + T_comm by CaPGNN's equations 13 and 14, from the operators on its 11585 x 11585 matrices.

        T_comm = |E_outer| ((H2D_i / max H2D + D2H_i / max D2H) (1 - 1/P) + IDT_i / max IDT / P)
        T_comp = alpha |E_all| SpMM_i / max SpMM + (1 - alpha) |V_inner| MM_i / max MM

    A device without a host apart from it (a CPU) copies within itself instead of H2D and D2H.

    Args:
        num_local, local_edges: int64 [P], vertices of each worker, and entries of its rows at its own vertices.
        costs: of each.
    """
    extent, share = PAPER_EXTENT, 1 / len(costs)
    spmm = _relative([cost("spmm", extent, PAPER_DEGREE, extent).seconds for cost in costs])
    matmul = _relative([cost("matmul_forward", extent, extent, extent).seconds for cost in costs])
    to_device, to_host, within = (
        _relative([cost(name if name in cost.curves else "idt", PAPER_BYTES).seconds for cost in costs])
        for name in ("h2d_pageable", "d2h_pageable", "idt")
    )
    nothing = np.zeros(len(costs))
    return LinearCost(
        fixed=ALPHA * local_edges * spmm + (1 - ALPHA) * num_local * matmul,
        per_edge=ALPHA * spmm + (to_device + to_host) * (1 - share) + within * share,
        per_received=nothing,
        per_sent=nothing,
    )


def _relative(seconds: list[float]) -> np.ndarray:
    return np.array(seconds) / max(seconds)
