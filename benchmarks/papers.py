"""The papers' tables, from statistics and the catalog alone: ranks, seconds, and who runs out of memory.

Every row is one printed figure and one prediction. Nothing is fitted: `benchmarks/_paper_rows.py` says what is taken
for each graph, machine and system. Ranks are compared within a table (Spearman), seconds by the median of their ratio,
and out-of-memory by whether the predicted bytes fit. Where a table has several systems, `winners_right` counts the
cells (a model on a graph on a machine) whose fastest system is predicted to be the fastest of those that fit, and
`wrong_winners` names the others. `memory_right` counts the rows that are said rightly to fit or not to fit. Rows of
systems that no program of ours has are left out: quantised rows, rows of other epochs, 2D splits. `docs/what_if.md`
explains the misses.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from rich.console import Console
from rich.table import Table
from scipy.stats import spearmanr

from benchmarks._paper_batches import batch_rows, distdgl_rows
from benchmarks._paper_rows import Row, rows_of, table_names, why_no_tables
from gnnplan.planner.statistics.price import Priced, Pricer, fastest
from gnnplan.planner.statistics.stand_in import Structures
from gnnplan.planner.techniques.registry import technique
from gnnplan.profiles.errors import UserError

_OF_SYSTEMS = ("neutrontp_2", "emma_4", "morphgl_4")
"""Tables whose rows' names end with a system."""


def main(quick: bool) -> dict:
    """Every table; the quick form takes two rows of each."""
    if reason := why_no_tables():
        raise UserError(reason)
    structures, tables = Structures(), {}
    limit = 2 if quick else None
    found = {name: [_predicted(row, structures) for row in list(rows_of(name))[:limit]] for name in table_names()}
    found["neutrontp_2"] += distdgl_rows(structures, limit)
    found["morphgl_4"] = list(batch_rows(structures, limit))
    for name, rows in found.items():
        winners = _winners(rows) if name in _OF_SYSTEMS else {}
        tables[name] = {**_summary(rows), **winners, "rows": rows}
        _show(name, rows)
        print(name, {key: value for key, value in tables[name].items() if key != "rows"}, flush=True)
    return {"tables": tables, **_totals(list(tables.values()))}


def _totals(tables: Sequence[dict]) -> dict:
    """Shares over all tables."""
    counts = {
        "share_of_winners": [each["winners_right"] for each in tables if "winners_right" in each],
        "share_of_memory": [each["memory_right"] for each in tables],
    }
    return {name: sum(right for right, _ in each) / sum(of for _, of in each) for name, each in counts.items()}


def _winners(rows: Sequence[dict]) -> dict:
    """Of every cell in which two systems or more are modelled, and one ran."""
    cells: dict[str, list[dict]] = {}
    for row in rows:
        cells.setdefault(row["row"].rsplit(" ", 1)[0], []).append(row)
    wrong, count = [], 0
    for each in cells.values():
        ran, fit = ([row for row in each if row["printed_s"] is not None], [row for row in each if row["fits"]])
        if len(each) < 2 or not ran:
            continue
        count += 1
        best = min(ran, key=lambda row: row["printed_s"])
        said = min(fit, key=lambda row: row["predicted_s"], default=None)
        if said is not best:
            wrong.append(f"{best['row']}, said {said['row'].rsplit(' ', 1)[1] if said else 'that none fits'}")
    return {"winners_right": [count - len(wrong), count], "wrong_winners": wrong}


def _predicted(row: Row, structures: Structures) -> dict:
    found = Pricer(row.statistics, structures, saves_memory=True).candidates(row.job, row.machine)
    of_layout = [each for each in found if _layout(each) == row.layout]
    assert of_layout, row.name
    best = fastest(of_layout)
    peak = max(each.peak_bytes for each in best.memory)
    return {
        "row": row.name,
        "printed_s": row.printed,
        "predicted_s": row.epochs * best.epoch_s,
        "fits": best.fits,
        "headroom": best.headroom,
        "printed_mb": row.printed_mb,
        "predicted_mb": peak / 1e6,
        "communication_share": float(best.busy_s("communicate").max() / best.epoch_s),
    }


def _layout(of: Priced) -> str:
    return next(c.technique for c in of.choices if "layout" in technique(c.technique).claims)


def _summary(rows: Sequence[dict]) -> dict:
    ran = [row for row in rows if row["printed_s"] is not None]
    ratios = [row["predicted_s"] / row["printed_s"] for row in ran]
    found = {
        "num_rows": len(rows),
        "spearman": _spearman([(row["printed_s"], row["predicted_s"]) for row in ran]),
        "spearman_within_last": _within(ran, 1),
        "spearman_within_others": _within(ran, 0),
        "median_ratio": float(np.median(ratios)),
        "median_error": float(np.median(np.abs(np.array(ratios) - 1))),
        "out_of_memory_printed": sum(row["printed_s"] is None for row in rows),
        "out_of_memory_of_these_predicted": sum(row["printed_s"] is None and not row["fits"] for row in rows),
        "memory_right": [sum(row["fits"] == (row["printed_s"] is not None) for row in rows), len(rows)],
        "ran_of_these_predicted_to_fit": [sum(row["fits"] for row in ran), len(ran)],
    }
    sizes = [(row["printed_mb"], row["predicted_mb"]) for row in rows if row["printed_mb"]]
    if sizes:
        found["spearman_of_bytes"] = _spearman(sizes)
        found["median_ratio_of_bytes"] = float(np.median([ours / printed for printed, ours in sizes]))
    return found


def _within(rows: Sequence[dict], part: int) -> dict[str, float]:
    """Within rows that agree in the last word of their names (1), a system or a group, or in all words before (0)."""
    pairs: dict[str, list[tuple[float, float]]] = {}
    for row in rows:
        pairs.setdefault(row["row"].rsplit(" ", 1)[part], []).append((row["printed_s"], row["predicted_s"]))
    return {name: found for name, each in pairs.items() if (found := _spearman(each)) is not None}


def _spearman(pairs: Sequence[tuple[float, float]]) -> float | None:
    return float(spearmanr(*zip(*pairs, strict=True)).statistic) if len(pairs) > 2 else None


def _show(name: str, rows: Sequence[dict]) -> None:
    table = Table(title=f"{name}: printed and predicted seconds")
    for column in ("row", "printed", "predicted", "ratio", "memory left", "communication"):
        table.add_column(column, justify="left" if column == "row" else "right")
    for row in rows:
        printed = row["printed_s"]
        figures = [f"{row['predicted_s']:.3g}", f"{row['predicted_s'] / printed:.2f}" if printed else "-"]
        share = f"{row['communication_share']:.0%}"
        table.add_row(row["row"], f"{printed:.3g}" if printed else "OOM", *figures, f"{row['headroom']:.0%}", share)
    Console(width=110).print(table)
