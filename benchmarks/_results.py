"""How results are kept: `benchmarks/results/NAME.json`, with the command, the day and the machine."""

from __future__ import annotations

import hashlib
import json
import os
import platform
import time
from collections.abc import Callable, Mapping
from pathlib import Path

from gnnplan.profiles.contract import read_mapping, replacing

RESULTS = Path(__file__).parent / "results"
_ROOT = Path(__file__).parents[1]
_CODE = ("planner", "profiles", "runtime")


def today() -> str:
    """The day, as results have it."""
    return time.strftime("%Y-%m-%d")


def machine() -> str:
    """This machine, as results have it."""
    return f"{platform.machine()}, {len(os.sched_getaffinity(0))} cores"


def about() -> dict[str, str]:
    """What a part of a result says of itself: day, machine, and the code that planned and predicted it."""
    return {"date": today(), "machine": machine(), "code": code()}


def code() -> str:
    """A digest of the code that plans, predicts and runs."""
    found = hashlib.sha256()
    for path in sorted(path for folder in _CODE for path in (_ROOT / folder).rglob("*.py")):
        found.update(path.read_bytes())
    return found.hexdigest()[:12]


def record_of(name: str, result: dict, *, quick: bool = False) -> dict:
    """A benchmark's result, with what it is of."""
    command = f"python -m benchmarks {name}{' --quick' if quick else ''}"
    return {"benchmark": name, "command": command, "date": today(), "machine": machine(), **result}


def keep(file: str, record: dict) -> None:
    """Writes a record in place of the last one."""
    with replacing(RESULTS / f"{file}.json") as temporary:
        temporary.write_text(json.dumps(record, indent=1) + "\n")


def kept_parts(file: str, parts: str, key: str, settings: Mapping[str, str]) -> dict[str, dict]:
    """Of the parts of a result that were kept, those of the settings that they have now, by name.

    Args:
        parts: the result's list of them; key: of a part's name.
        settings: fingerprints, by name.
    """
    found = kept(file).get(parts, [])
    return {part[key]: part for part in found if settings.get(part.get(key), "") == part.get("settings")}


class Parts:
    """The parts of a result by kind and name: those that an interrupted benchmark kept, and what is added.

    Args:
        file: of the result.
        settings: fingerprints by kind and name; a part is what it was kept for as long as its own is the same.
        figures: from the parts by kind and name to the figures over them.
        is_kept: whether they are read and written at all; a quick form's are not.
    """

    def __init__(
        self,
        file: str,
        settings: Mapping[str, Mapping[str, str]],
        figures: Callable[[Mapping[str, Mapping[str, dict]]], dict],
        *,
        is_kept: bool,
    ) -> None:
        self._file, self._settings, self._figures, self._is_kept = file, settings, figures, is_kept
        self.found: dict[str, dict[str, dict]] = {
            kind: kept_parts(file, kind, "part", prints) if is_kept else {} for kind, prints in settings.items()
        }

    def has(self, kind: str, name: str) -> bool:
        """Whether it is there."""
        return name in self.found[kind]

    def add(self, kind: str, name: str, make: Callable[[], dict]) -> None:
        """Makes a part that is not there, and keeps what there is by now."""
        if self.has(kind, name):
            return
        part = {"part": name, "settings": self._settings[kind][name], **about()}
        self.found[kind][name] = make() | part
        print(kind, json.dumps(self.found[kind][name])[:300], flush=True)
        if self._is_kept:
            keep(self._file, record_of(self._file, self.record()))

    def record(self) -> dict:
        """Figures over what is there, what is missing, and the parts."""
        missing = [f"{kind} {name}" for kind, of in self._settings.items() for name in of if not self.has(kind, name)]
        parts = {
            kind: [found[name] for name in self._settings[kind] if name in found] for kind, found in self.found.items()
        }
        return {**self._figures(self.found), "missing": missing, **parts}


def kept(file: str) -> dict:
    """The last record (empty where there is none)."""
    path = RESULTS / f"{file}.json"
    return read_mapping(path) if path.exists() else {}
