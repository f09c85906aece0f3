"""Accuracy in ten source chunks on 1, 2, 4 and 8 parts, as in Emma's figure 9.

Programs give the same numbers on any number of workers, but for the order of their sums. Over a training such roundings
grow, so accuracies differ, as those of two seeds do. Models are those of `source_chunks`, of three layers, for 150
steps in ten chunks; the quick form has two chunks of a small graph on 1 and 2 parts. A figure is the test accuracy at
the best validation, in percent. `worst_off_points` is how far some number of parts is from one part.

Every training is kept when it has ended, and is not run again under the same settings.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from pathlib import Path
from shutil import rmtree

from rich.console import Console
from rich.table import Table

from benchmarks import _chunks_graphs
from benchmarks._chunks_settings import Row
from benchmarks._common import OUT, why_absent
from benchmarks._results import Parts
from benchmarks.source_chunks import trained, unlimited
from gnnplan.planner.graph_spec import NpzGraph

_FILE = "source_chunks_parts"
_GRAPHS, _STEPS = ("amazon_photo", "fb100_cornell5"), 150


def main(quick: bool) -> dict:
    """All rows whose graph is here."""
    rows = [Row("small", "gcn", 3, 40, hidden=32)] if quick else _rows()
    variant, counts = ("B = 2", (1, 2)) if quick else ("B = 10", (1, 2, 4, 8))
    skipped = [reason for row in rows if (reason := why_absent(row.name, row.graph))]
    here = [row for row in rows if not why_absent(row.name, row.graph)]
    for name in {row.graph_name for row in here if isinstance(row.graph, NpzGraph)}:
        _chunks_graphs.write(name)
    folder = OUT / (f"{_FILE}_quick" if quick else _FILE)
    if quick:
        rmtree(folder, ignore_errors=True)
    prints = {_on(row, count): row.fingerprint(variant) for row in here for count in counts}
    parts = Parts(_FILE, {"trained": prints}, summary, is_kept=not quick)
    for row in here:
        for count in counts:
            make = partial(_trained, row, variant, count, folder / str(count))
            parts.add("trained", _on(row, count), make)
    record = parts.record()
    _show(record["accuracies"])
    return record | {"skipped": skipped}


def _rows() -> list[Row]:
    return [Row(graph, kind, 3, _STEPS, is_normed=True) for graph in _GRAPHS for kind in ("sage", "gat")]


def _on(row: Row, count: int) -> str:
    return f"{row.name}, {count} parts"


def _trained(row: Row, variant: str, count: int, place: Path) -> dict:
    return trained(row, variant, unlimited(count), place) | {"parts": count}


def summary(parts: Mapping[str, Mapping[str, dict]]) -> dict:
    """Accuracies by row and number of parts, in percent, and how far they are from those of one part."""
    found: dict[str, dict[str, float]] = {}
    for each in parts["trained"].values():
        found.setdefault(each["row"], {})[str(each["parts"])] = 100 * each["test"]
    off = [abs(test - of["1"]) for of in found.values() if "1" in of for test in of.values()]
    return {"worst_off_points": max(off, default=None), "accuracies": found}


def _show(accuracies: Mapping[str, Mapping[str, float]]) -> None:
    table = Table(title="test accuracy in source chunks by the number of parts, percent")
    counts = sorted({int(count) for of in accuracies.values() for count in of})
    for column in ("row", *map(str, counts)):
        table.add_column(column, justify="left" if column == "row" else "right")
    for row, of in accuracies.items():
        table.add_row(row, *(f"{of[str(count)]:.1f}" if str(count) in of else "" for count in counts))
    Console(width=110).print(table)
