"""How results are kept: `benchmarks/results/NAME.json`, with the command, the day and the machine."""

from __future__ import annotations

import json
import os
import platform
import time
from pathlib import Path

from profiles.contract import read_mapping, replacing

RESULTS = Path(__file__).parent / "results"


def today() -> str:
    """The day, as results have it."""
    return time.strftime("%Y-%m-%d")


def machine() -> str:
    """This machine, as results have it."""
    return f"{platform.machine()}, {len(os.sched_getaffinity(0))} cores"


def record_of(name: str, result: dict, *, quick: bool = False) -> dict:
    """A benchmark's result, with what it is of."""
    command = f"python -m benchmarks {name}{' --quick' if quick else ''}"
    return {"benchmark": name, "command": command, "date": today(), "machine": machine(), **result}


def keep(file: str, record: dict) -> None:
    """Writes a record in place of the last one."""
    with replacing(RESULTS / f"{file}.json") as temporary:
        temporary.write_text(json.dumps(record, indent=1) + "\n")


def kept(file: str) -> dict:
    """The last record (empty where there is none)."""
    path = RESULTS / f"{file}.json"
    return read_mapping(path) if path.exists() else {}
