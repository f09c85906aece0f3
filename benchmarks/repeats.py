"""Do operators repeat better against fixed work beside them than in seconds? The profiler times them that way.

A few points of several operators are timed in turn, over and over, each between two of `gnnplan.profiles.pace`'s fixed
works. The figure is the coefficient of variation of a point over its repeats, once in seconds and once at the mean
pace. On a machine of one's own both are small; on a shared one the second should be smaller.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import numpy as np
import torch
from rich.console import Console
from rich.table import Table

from gnnplan.profiles.grids import GRIDS
from gnnplan.profiles.measure import Timing, sustained
from gnnplan.profiles.operators import OPERATORS
from gnnplan.profiles.pace import Paced, PaceMaker, at_mean_pace

_NAMES = ("matmul_forward", "matmul_grad_weight", "spmm", "spmm_transposed", "gather_rows", "activation_forward", "idt")
_BUDGET_S = 0.15


def main(quick: bool) -> dict:
    """Repeats of the middle point of every operator's grid."""
    torch.set_num_threads(1)
    device, maker, taken = torch.device("cpu"), PaceMaker(), {name: [] for name in _NAMES}
    calls = {name: OPERATORS[name].make(_middle(name), device) for name in _NAMES}
    for _ in range(5 if quick else 60):
        for name, call in calls.items():
            taken[name].append(maker.beside(partial(_timed, call, device)))
    rows = [_row(name, repeats) for name, repeats in taken.items()]
    _show(rows)
    raw, paced = ([row[key] for row in rows] for key in ("variation", "variation_paced"))
    return {
        "variation": float(np.mean(raw)),
        "variation_paced": float(np.mean(paced)),
        "better_in": sum(ours < theirs for ours, theirs in zip(paced, raw)),
        "rows": rows,
    }


def _timed(call: Callable[[], object], device: torch.device) -> tuple[Timing, ...]:
    return (sustained(call, device, budget_s=_BUDGET_S),)


def _middle(name: str) -> tuple[float, ...]:
    shapes = sorted(GRIDS["quick"].shapes(name))
    return shapes[len(shapes) // 2]


def _row(name: str, repeats: list[Paced]) -> dict:
    def variation(timings: list[tuple[Timing, ...]]) -> float:
        seconds = [timing.median_s for (timing,) in timings]
        return float(np.std(seconds) / np.mean(seconds))

    return {
        "operator": name,
        "shape": _middle(name),
        "repeats": len(repeats),
        "variation": variation([paced.timings for paced in repeats]),
        "variation_paced": variation(at_mean_pace(repeats)),
    }


def _show(rows: list[dict]) -> None:
    table = Table(title="variation of an operator's seconds over its repeats")
    for column in ("operator", "in seconds", "at the mean pace"):
        table.add_column(column, justify="left" if column == "operator" else "right")
    for row in rows:
        table.add_row(row["operator"], f"{row['variation']:.1%}", f"{row['variation_paced']:.1%}")
    Console().print(table)
