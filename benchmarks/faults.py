"""Faults of every kind at every moment of a run: it ends in one line, leaves nothing behind, and goes on bit for bit.

`cells` counts what was played, with the findings: runs that hang (`hangs`) or end after the timeout and 15 s (`late`),
`unnamed` ends (a traceback, no line, or another exit code), `wrong_numbers` of runs that ended well, and files or
processes `left_behind`. `not_resumed` counts runs that did not come to the weights of an undisturbed one when they went
on; where no two runs are alike, to its accuracy. Cells are kept one by one, so the next start plays those that are
missing: `cells_missing`. A few are played at once, for most of a cell is waiting.
"""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from threading import Lock
from typing import Any

from benchmarks._common import OUT
from benchmarks._fault_cells import MOMENTS, Fault, Job, play
from benchmarks._fault_jobs import KINDS, job_of
from benchmarks._fault_kinds import EMULATED, FAULTS, can_come, is_root
from benchmarks._results import about, code, keep, kept_parts, record_of

Place = tuple[Fault, str, str]
"""Of a cell: the fault, its moment, and the kind of run."""
_FILE = "faults"
_LIMIT_S = 480.0  # after which none begins: a part of the matrix takes ten minutes
_AT_ONCE = 3
_SETTINGS = "2"  # of the jobs: cells of others are played again
_SMALL_BYTES = "4m"
_FINDINGS = ("hangs", "late", "wrong_numbers", "unnamed", "left_behind")


def main(quick: bool) -> dict:
    """The cells that are missing, as many as fit the time, in their order; in quick form one."""
    with TemporaryDirectory(prefix="gnnplan-faults-") as folder:
        if quick:
            cells = [(each, "checkpoint", KINDS[0]) for each in FAULTS if each.name == "SIGKILL"]
            jobs = {kind: job_of(kind, Path(folder), quick=True) for _, _, kind in cells}
            rows = [_played(jobs[cell[2]], cell, Path(folder) / str(number)) for number, cell in enumerate(cells)]
            return _figures({row["cell"]: row for row in rows if row}, [_name(*cell) for cell in cells])
        return _play_missing(Path(folder), time.monotonic() + _LIMIT_S)


def _play_missing(folder: Path, end_s: float) -> dict[str, Any]:
    cells = list(_cells())
    names = [_name(*cell) for cell in cells]
    rows = kept_parts(_FILE, "rows", "cell", dict.fromkeys(names, _SETTINGS))
    missing = [cell for cell in cells if _name(*cell) not in rows and (cell[2] != EMULATED or is_root())]
    made = OUT / _FILE / code()
    made.mkdir(parents=True, exist_ok=True)
    making, keeping = Lock(), Lock()
    jobs: dict[str, Job] = {}

    def play_one(number: int, cell: Place) -> None:
        if time.monotonic() > end_s:
            return
        with making:
            if cell[2] not in jobs:
                jobs[cell[2]] = job_of(cell[2], made, quick=False)
        if row := _played(jobs[cell[2]], cell, folder / str(number)):
            with keeping:
                rows[_name(*cell)] = row
                print(row, file=sys.stderr, flush=True)
                keep(_FILE, record_of(_FILE, _figures(rows, names)))

    with ThreadPoolExecutor(_AT_ONCE) as pool:
        for _ in pool.map(play_one, range(len(missing)), missing):
            pass  # raises what a cell raised
    return _figures(rows, names)


def _name(fault: Fault, moment: str, kind: str) -> str:
    return f"{fault.name}, {moment}, {kind}"


def _cells() -> Iterator[Place]:
    """First every fault at every moment of one kind of run, which is another for each; then of the next kinds."""
    for turn in range(len(KINDS)):
        for number, moment in enumerate(MOMENTS):
            for i, fault in enumerate(FAULTS):
                kind = KINDS[(i + number + turn) % len(KINDS)]
                if can_come(fault, moment, kind):
                    yield fault, moment, kind


def _played(job: Job, cell: Place, folder: Path) -> dict[str, Any] | None:
    """A cell's row; None where it takes a disk of its own and this machine gives none."""
    fault, moment, _ = cell
    scratch = folder / "scratch"
    scratch.mkdir(parents=True)
    with _place(folder / "run", fault.on_small_disk) as run:
        if run is None:
            return None
        found = play(job, fault, moment, run, scratch)
    return {"cell": _name(*cell), "settings": _SETTINGS, **found.as_dict(), **about()}


def _figures(rows: dict[str, dict[str, Any]], names: Sequence[str]) -> dict[str, Any]:
    cells = [rows[name] for name in names if name in rows]
    resumed = [cell["resumed"] for cell in cells if cell["resumed"] is not None]
    ended_alone = [cell["seconds"] for cell in cells if cell["exit_code"] != 0]
    return {
        "cells": len(cells),
        "cells_missing": len(names) - len(cells),
        **{finding: sum(bool(cell[finding]) for cell in cells) for finding in _FINDINGS},
        "resumed_bit_identical": sum(resumed),
        "not_resumed": len(resumed) - sum(resumed),
        "worst_seconds_to_end": max(ended_alone, default=0.0),
        "rows": cells,
    }


@contextmanager
def _place(folder: Path, on_small_disk: bool) -> Iterator[Path | None]:
    """A run's folder; None where it takes a disk of its own and this machine gives none."""
    if not on_small_disk:
        yield folder
        return
    folder.mkdir()
    if not is_root():
        yield None
        return
    mount = ["mount", "-t", "tmpfs", "-o", f"size={_SMALL_BYTES}", "tmpfs", str(folder)]
    if subprocess.run(mount, stderr=subprocess.DEVNULL, check=False).returncode:
        yield None
        return
    try:
        yield folder
    finally:
        subprocess.run(["umount", "-l", str(folder)], check=False)
