"""Feature slices beside our best exact plan of rows and the planner's choice, on a power-law graph and four even hosts.

A cell is a network, a model, its layers and the width of its input. Of each it says seconds an epoch, and busy seconds
and bytes of every worker. Bytes are compared with NeutronTP's formula (section 3.2). The sides of a cell run in turn.

A cell is kept when its runs have ended, and is not run again under the same settings. So a session that stops early is
gone on with by the next one, and `missing` names what is left. Plans and finished runs are kept under `out/`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from pathlib import Path

from rich.console import Console
from rich.table import Table

from benchmarks._common import OUT, this_machine
from benchmarks._emulated import inside, started_fast
from benchmarks._results import about, keep, kept_parts, record_of
from benchmarks._tensor_parallel_results import cell_result, summary
from benchmarks._tensor_parallel_runs import Started, sides_of
from benchmarks._tensor_parallel_settings import CHOICE, ROWS, SLICES, Cell, cells_of, hosts_of
from gnnplan.planner import api
from gnnplan.planner.cluster import Cluster

_FILE = "tensor_parallel"


def main(quick: bool) -> dict:
    """Runs the cells that have not run; the quick form runs two small ones on two workers here, and keeps nothing."""
    cells = {cell.name: cell for cell in cells_of(quick)}
    settings = {name: cell.fingerprint for name, cell in cells.items()}
    results = {} if quick else kept_parts(_FILE, "cells", "cell", settings)
    missing = [cell for name, cell in cells.items() if name not in results]
    for mbit in dict.fromkeys(cell.mbit for cell in missing):
        _on(mbit, [cell for cell in missing if cell.mbit == mbit], results, quick, list(cells))
    found = [results[name] for name in cells]
    _show(found)
    return _record(results, list(cells))


def _on(mbit: int | None, cells: Sequence[Cell], results: dict[str, dict], quick: bool, names: Sequence[str]) -> None:
    """Adds the results of these cells, of one network, and keeps each as it comes."""
    folder = OUT / f"{_FILE}{'_quick' if quick else ''}"
    with _cluster(mbit, cells[0].num_workers, folder, quick) as (cluster, started):
        for cell in cells:
            at = folder / f"{cell.name.replace(', ', '_').replace('/', '_').replace(' ', '_')}-{cell.fingerprint}"
            sides = sides_of(cell, cluster, at, started, quick)
            of = {"cell": cell.name, "settings": cell.fingerprint, **about()}
            results[cell.name] = of | cell_result(cell, sides)
            if not quick:
                keep(_FILE, record_of(_FILE, _record(results, names)))


@contextmanager
def _cluster(mbit: int | None, num_workers: int, folder: Path, quick: bool) -> Iterator[tuple[Cluster, Started]]:
    """The profiled workers that cells run on, and what starts their runs."""
    if mbit is None:
        yield this_machine(num_workers, quick=quick, folder=folder), nullcontext
        return
    path, hosts = folder / f"profile_{mbit}" / "cluster.json", hosts_of(mbit)
    with inside(hosts) as emulation:
        if not path.exists():
            print(f"{hosts.name}: profiling every host where it runs", flush=True)
            api.profile_cluster(hosts, path.parent, quick=quick)
        yield Cluster.load(path), lambda: started_fast(*emulation)


def _record(results: Mapping[str, dict], names: Sequence[str]) -> dict:
    """Figures over what is there, in the order of the settings."""
    found = [results[name] for name in names if name in results]
    return {**summary(found), "missing": [name for name in names if name not in results], "cells": found}


def _show(cells: Sequence[dict]) -> None:
    table = Table(title="an epoch in feature slices, and how many times longer others take")
    for column in ("cell", "slices", "best rows", "choice", "its layout", "busy max / mean", "bytes"):
        table.add_column(column, justify="left" if column == "cell" else "right")
    for cell in cells:
        slices, rows, choice = (cell["sides"][name] for name in (SLICES, ROWS, CHOICE))
        table.add_row(
            cell["cell"],
            f"{slices['epoch_s'] * 1e3:.0f} ms",
            f"{rows['epoch_s'] / slices['epoch_s']:.2f}",
            f"{choice['epoch_s'] / slices['epoch_s']:.2f}",
            choice["layout"],
            f"{slices['balance']:.3f}",
            "as formula" if cell["bytes_as_formula"] else "not as formula",
        )
    Console(width=130).print(table)
