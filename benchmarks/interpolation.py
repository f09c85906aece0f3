"""Operators between the sizes that profiles hold: seconds along a straight line, or those of a row along one.

Every operator of the CPU is timed at the sizes of the grid that hosts under a quota are profiled with, and halfway (by
factor) between each two of them, on one thread: in caches for small sizes, out of them for large ones. Both rules
predict the latter from the former.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from itertools import pairwise, product

import numpy as np
import torch
from rich.console import Console
from rich.table import Table

from gnnplan.profiles.curves import Curve
from gnnplan.profiles.grids import QUICK, QUOTA, Grid
from gnnplan.profiles.machine import OperatorTable, Point
from gnnplan.profiles.measure import sustained
from gnnplan.profiles.operators import OPERATORS, timed_call

_CPU = torch.device("cpu")
_RULES = ("along_a_line", "row_by_row")


def main(quick: bool) -> dict:
    """Every operator at its largest width but one, and its largest degree but one."""
    torch.set_num_threads(1)
    names = ["spmm", "add"] if quick else [name for name in OPERATORS if _is_of_cpu(name)]
    rows = [row for name in names for row in _rows(name, QUICK if quick else QUOTA, budget_s=0.01 if quick else 0.15)]
    _show(rows)
    return {
        **{f"mean_error_{rule}": _mean_error(rows, rule) for rule in _RULES},
        **{f"worst_error_{rule}": max(_factor(row, rule) for row in rows) - 1 for rule in _RULES},
        "rows": rows,
    }


def _is_of_cpu(name: str) -> bool:
    return OPERATORS[name].is_measured_on(_CPU)


def _rows(name: str, grid: Grid, budget_s: float) -> Iterator[dict]:
    sizes, *others = grid.axes_of(name).values()
    chosen = tuple(values[-2] for values in others)
    axes = (sizes, *((values[0], value) for values, value in zip(others, chosen)))  # the least tell what is fixed
    points = tuple(
        Point(shape=shape, median_s=_seconds(name, shape, budget_s), spread_s=0.0)
        for shape in product(*(sorted(set(values)) for values in axes))
    )
    table = OperatorTable(axes=tuple(OPERATORS[name].axes), points=points)
    straight, by_row = (Curve.from_table(table, leaves_caches=leaves) for leaves in (False, True))
    for low, high in pairwise(sizes):
        shape = (float(round(math.sqrt(low * high))), *chosen)
        measured_s = _seconds(name, shape, budget_s)
        predicted_s = [curve.seconds(shape).seconds for curve in (straight, by_row)]
        yield {
            "operator": name,
            "shape": shape,
            "measured_s": measured_s,
            **{rule: seconds / measured_s for rule, seconds in zip(_RULES, predicted_s, strict=True)},
        }


def _seconds(name: str, shape: tuple[float, ...], budget_s: float) -> float:
    return sustained(timed_call(name, shape, _CPU), _CPU, budget_s=budget_s).median_s


def _factor(row: dict, rule: str) -> float:
    return max(row[rule], 1 / row[rule])


def _mean_error(rows: Sequence[dict], rule: str) -> float:
    """Of the factor that a prediction is off by, less one; its geometric mean."""
    return math.exp(float(np.mean([math.log(_factor(row, rule)) for row in rows]))) - 1


def _show(rows: Sequence[dict]) -> None:
    table = Table(title="between two sizes of a profile: predicted over measured")
    for column in ("operator", "shape", "measured", "along a line", "row by row"):
        table.add_column(column, justify="left" if column == "operator" else "right")
    for row in rows:
        shape = " x ".join(f"{extent:,g}" for extent in row["shape"])
        measured = f"{row['measured_s'] * 1e3:.3f} ms"
        table.add_row(row["operator"], shape, measured, *(f"{row[rule]:.2f}" for rule in _RULES))
    Console().print(table)
