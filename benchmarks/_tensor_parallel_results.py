"""What `tensor_parallel` says of a cell: seconds, busy seconds and bytes of every worker, and figures over all."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from benchmarks._tensor_parallel_runs import Side, is_sliced
from benchmarks._tensor_parallel_settings import CHOICE, ONE_HOST, ROWS, SLICES, SLICES_LAYOUT, Cell
from gnnplan.planner.plan import Plan
from gnnplan.planner.trace import Trace

_ITEM_BYTES = 4
_AS_GOOD = 1.03
"""Two layouts of which one takes so many times as long as the other are as good as each other."""
PAPER = {
    "speedup_from_2_to_16_hosts": (4.97, 6.33),
    "speedup_over_others_by_layers": {2: 5.99, 3: 8.65, 4: 11.13},
    "slices_over_rows": (1.92, 2.45),
}
"""NeutronTP, sections 5.4 and 5.5."""


def cell_result(cell: Cell, sides: Mapping[str, Side]) -> dict:
    """A cell's figures; `rows_over_slices` says how many times longer an epoch of the best rows takes."""
    slices, rows, choice = sides[SLICES], sides[ROWS], sides[CHOICE]
    return {
        "network_mbit": cell.mbit,
        "model": cell.kind,
        "num_layers": cell.num_layers,
        "num_features": cell.num_features,
        "is_deep_and_narrow": cell.is_deep_and_narrow,
        "rows_over_slices": rows.median_s / slices.median_s,
        "choice_over_best": choice.median_s / min(rows.median_s, slices.median_s),
        "is_right_layout": _is_right(choice, rows.median_s / slices.median_s),
        "widths_divide": _widths_divide(slices.plan),
        "num_transposes": len(_widths_of(slices.plan, "transpose")),
        "formula_bytes": formula_bytes(slices.plan),
        "num_groups": num_groups(slices.plan),
        "bytes_as_formula": _sends(slices.rounds, formula_bytes(slices.plan)) if num_groups(slices.plan) == 1 else None,
        "sides": {name: _side(side) for name, side in sides.items()},
    }


def _side(side: Side) -> dict:
    """Figures of one plan's runs."""
    busy_s = np.median([busy_of(trace) for trace in side.rounds], 0)
    predicted = [worker.peak_bytes for worker in side.plan.prediction.workers]
    peaks = np.max([trace.peak_bytes for trace in side.rounds], 0)
    return {
        "layout": "slices" if is_sliced(side.plan) else "rows",
        "techniques": [each.technique for each in side.plan.choices],
        "num_workers": side.plan.num_workers,
        "same_as": side.same_as,
        "epoch_s": side.median_s,
        "rounds_s": [trace.median_epoch_s for trace in side.rounds],
        "predicted_s": side.plan.prediction.expected_epoch_s,
        "busy_s": busy_s.tolist(),
        "balance": float(busy_s.max() / busy_s.mean()),
        "sent_bytes": list(side.rounds[0].sent_bytes),
        "peak_bytes": peaks.tolist(),
        "memory_errors": [ours / theirs - 1 for ours, theirs in zip(predicted, peaks.tolist(), strict=True)],
        "stolen_share": max(trace.stolen_share for trace in side.rounds),
    }


def busy_of(trace: Trace) -> np.ndarray:
    """float64 [W]: seconds of computing in an epoch, the mean of those that were traced."""
    found, epochs = np.zeros(trace.num_workers), {span.epoch for span in trace.spans}
    for span in trace.spans:
        if span.category == "compute":
            found[span.worker] += span.end_s - span.start_s
    return found / max(len(epochs), 1)


def num_groups(plan: Plan) -> int:
    """Of workers with slices; each group has the columns of its own rows, and rows of the others besides."""
    return next(each.decision["num_groups"] for each in plan.choices if each.technique == SLICES_LAYOUT)


def formula_bytes(plan: Plan) -> float:
    """What all workers of one group send in an epoch of even slices: NeutronTP's section 3.2, and attention's numbers.

    A transpose of V rows with D columns moves V D (N - 1) / N numbers. A number that all workers need of every vertex,
    or the gradient of one, moves V (N - 1) times.
    """
    count, rows = plan.num_workers, plan.graph.num_nodes
    transposed, shared = (sum(_widths_of(plan, kind)) for kind in ("transpose", "exchange"))
    return _ITEM_BYTES * rows * (count - 1) * (transposed / count + shared)


def _widths_of(plan: Plan, kind: str) -> list[int]:
    """Of every operator of a kind in an epoch, the columns that it moves."""
    cycle = plan.cycle.cycle()
    (program,) = (cycle.programs[name] for name in cycle.order)
    return [cycle.values[op.reads[0]].width for op in program if op.kind == kind]


def _widths_divide(plan: Plan) -> bool:
    counts = [plan.graph.num_nodes, *_widths_of(plan, "transpose")]
    return all(count % plan.num_workers == 0 for count in counts)


def _sends(rounds: Sequence[Trace], formula: float) -> bool:
    """Whether every worker sent its part in every run, to the byte."""
    return all(sent == formula / trace.num_workers for trace in rounds for sent in trace.sent_bytes)


def _is_right(choice: Side, rows_over_slices: float) -> bool:
    """Whether the choice has the layout that was measured to be faster; either is right where they are as good."""
    return rows_over_slices >= 1 / _AS_GOOD if is_sliced(choice.plan) else rows_over_slices <= _AS_GOOD


def summary(cells: Sequence[dict]) -> dict:
    """Figures over the cells that are known; None where no cell has one."""
    divided = [cell["sides"][SLICES]["balance"] for cell in cells if cell["widths_divide"]]
    deep = [cell["rows_over_slices"] for cell in cells if cell["is_deep_and_narrow"]]
    errors = [error for cell in cells for side in cell["sides"].values() for error in side["memory_errors"]]
    alone = [cell for cell in cells if ONE_HOST in cell["sides"]]
    return {
        "num_cells": len(cells),
        "worst_compute_balance": max(divided, default=None),
        "bytes_as_formula": all(cell["bytes_as_formula"] is not False for cell in cells),
        "cells_of_formula": sum(cell["bytes_as_formula"] is not None for cell in cells),
        "deep_speedup": _mean(deep),
        "rows_win_somewhere": any(cell["rows_over_slices"] < 1 / _AS_GOOD for cell in cells),
        "right_layout": float(np.mean([cell["is_right_layout"] for cell in cells])) if cells else None,
        "worst_choice_over_best": max((cell["choice_over_best"] for cell in cells), default=None),
        "worst_memory_error": max(map(abs, errors), default=None),
        "speedup_over_one_host": _mean([_over_one_host(cell) for cell in alone]),
        "rows_over_slices_by_layers": _by_layers(cells),
        "paper": PAPER,
    }


def _over_one_host(cell: dict) -> float:
    return cell["sides"][ONE_HOST]["epoch_s"] / cell["sides"][SLICES]["epoch_s"]


def _by_layers(cells: Sequence[dict]) -> dict[int, float | None]:
    depths = sorted({cell["num_layers"] for cell in cells})
    return {depth: _mean([c["rows_over_slices"] for c in cells if c["num_layers"] == depth]) for depth in depths}


def _mean(ratios: Sequence[float]) -> float | None:
    """Geometric mean."""
    return float(np.exp(np.mean(np.log(ratios)))) if ratios else None
