"""Feature slices beside our best exact plan of rows and the planner's choice, on a power-law graph and four even hosts.

A cell is a network, a model, its layers and the width of its input. Of each it says seconds an epoch, and busy seconds
and bytes of every worker. Bytes are compared with NeutronTP's formula (section 3.2). The sides of a cell run in turn.
What each idea of the paper gains is measured on the same hosts (`_slices_gains`).

A part is kept when its runs have ended, and is not run again under the same settings. So a session that stops early is
gone on with by the next one, and `missing` names what is left. The narrow network comes first. Plans and finished runs
are kept under `out/`, for as long as the profile that they are made by: an hour.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from functools import partial
from pathlib import Path

from rich.console import Console
from rich.table import Table

from benchmarks._common import OUT, this_machine
from benchmarks._emulated import inside, profiled, started_fast
from benchmarks._results import Parts
from benchmarks._slices_gains import Gains, gains_of, gains_result, gains_summary
from benchmarks._tensor_parallel_results import cell_result, summary
from benchmarks._tensor_parallel_runs import Started, sides_of
from benchmarks._tensor_parallel_settings import CHOICE, ROWS, SLICES, Cell, cells_of, hosts_of
from gnnplan.planner.cluster import Cluster

_FILE = "tensor_parallel"


def main(quick: bool) -> dict:
    """Runs the parts that have not run; the quick form runs small ones on two workers here, and keeps nothing."""
    cells, gains = list(cells_of(quick)), gains_of(quick)
    settings = {
        "cells": {cell.name: cell.fingerprint for cell in cells},
        "gain_rows": {each.name: each.fingerprint for each in gains},
    }
    parts = Parts(_FILE, settings, _figures, is_kept=not quick)
    for mbit in sorted({each.mbit for each in (*cells, *gains)}, key=lambda mbit: mbit or 0):
        missing = [each for each in cells if each.mbit == mbit and not parts.has("cells", each.name)]
        missing_gains = [each for each in gains if each.mbit == mbit and not parts.has("gain_rows", each.name)]
        if missing or missing_gains:
            _on(mbit, missing, missing_gains, parts, quick)
    record = parts.record()
    _show(record["cells"])
    _show_gains(record["gain_rows"])
    return record


def _on(mbit: int | None, cells: Sequence[Cell], gains: Sequence[Gains], parts: Parts, quick: bool) -> None:
    """Adds parts on one network, the deepest models first."""
    folder = OUT / f"{_FILE}{'_quick' if quick else ''}" / (str(mbit) if mbit else "here")
    with _cluster(mbit, (*cells, *gains)[0].num_workers, folder, quick) as (known, started):
        for each in gains:
            parts.add("gain_rows", each.name, partial(_gains, each, known, folder, started, quick))
        for cell in sorted(cells, key=lambda cell: -cell.num_layers):
            parts.add("cells", cell.name, partial(_cell, cell, known, folder, started, quick))


def _cell(cell: Cell, known: Callable[[], Cluster], folder: Path, started: Started, quick: bool) -> dict:
    return cell_result(cell, sides_of(cell, known(), folder / _folder(cell), started, quick))


def _gains(gains: Gains, known: Callable[[], Cluster], folder: Path, started: Started, quick: bool) -> dict:
    return gains_result(sides_of(gains, known(), folder / _folder(gains), started, quick))


def _folder(of: Cell | Gains) -> str:
    return f"{of.name.replace(', ', '_').replace('/', '_').replace(' ', '_')}-{of.fingerprint}"


@contextmanager
def _cluster(
    mbit: int | None, num_workers: int, folder: Path, quick: bool
) -> Iterator[tuple[Callable[[], Cluster], Started]]:
    """The workers that parts run on, with profiles as they are needed, and what starts their runs."""
    if mbit is None:
        here = this_machine(num_workers, quick=quick, folder=folder)
        yield lambda: here, nullcontext
        return
    hosts = hosts_of(mbit)
    with inside(hosts) as emulation:
        yield lambda: profiled(hosts, folder), lambda: started_fast(*emulation)


def _figures(parts: Mapping[str, Mapping[str, dict]]) -> dict:
    return {**summary(list(parts["cells"].values())), **gains_summary(list(parts["gain_rows"].values()))}


def _show(cells: Sequence[dict]) -> None:
    table = Table(title="an epoch in feature slices, and how many times longer others take")
    for column in ("cell", "slices", "best rows", "choice", "its layout", "busy max / mean", "bytes"):
        table.add_column(column, justify="left" if column == "cell" else "right")
    for cell in cells:
        slices, rows, choice = (cell["sides"][name] for name in (SLICES, ROWS, CHOICE))
        table.add_row(
            cell["part"],
            f"{slices['epoch_s'] * 1e3:.0f} ms",
            f"{rows['epoch_s'] / slices['epoch_s']:.2f}",
            f"{choice['epoch_s'] / slices['epoch_s']:.2f}",
            choice["layout"],
            f"{slices['balance']:.3f}",
            {None: f"{cell['num_groups']} groups", True: "as formula", False: "not as formula"}[
                cell["bytes_as_formula"]
            ],
        )
    Console(width=130).print(table)


def _show_gains(rows: Sequence[dict]) -> None:
    table = Table(title="how many times shorter an epoch gets by each idea, over the one before it")
    table.add_column("graph")
    for way in rows[0]["gains"] if rows else ():
        table.add_column(way, justify="right")
    table.add_column("communication", justify="right")
    for row in rows:
        gains = [f"{gain:.2f}" for gain in row["gains"].values()]
        table.add_row(row["part"], *gains, f"{row['communication_share']:.0%}")
    Console(width=130).print(table)
