"""Mutated documents and graphs: each is refused in one line, or used; edited plans that are used train as they should.

Documents are read and used as the verbs use them, in a process of their own with a watch over every case. `refused` and
`accepted` add up with the findings to `documents` and `plans_run`. Edited plans that are accepted are trained by the
sequential executor beside plain PyG: `silently_wrong` counts those whose losses differ.

Cases are kept by parts, so the next start plays those that are missing: `parts_missing`.
"""

from __future__ import annotations

import multiprocessing
import sys
import time
from collections import Counter
from collections.abc import Iterable, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from benchmarks._fuzz_cases import FINDINGS, OUTCOMES, Case, cases_of, edited_plan
from benchmarks._fuzz_corpus import Corpus
from benchmarks._fuzz_watch import Found, play_watched
from benchmarks._results import about, keep, kept_parts, record_of

_FILE = "fuzz"
_SETTINGS = "1"  # of the cases: parts of others are played again
_QUICK_S, _QUICK_EDITED = 8.0, 12
_LIMIT_S = 480.0  # after which no part begins
_SHOWN = 20


@dataclass(frozen=True)
class Part:
    """Cases of one sort, from one number up to another."""

    sort: str
    first: int
    end: int

    @property
    def name(self) -> str:
        """As results have it."""
        return f"{self.sort} {self.first} to {self.end - 1}"

    def cases(self, corpus: Corpus) -> Iterable[Case]:
        """Equal ones, whenever they are asked for."""
        if self.sort == "documents":
            return islice(cases_of(corpus), self.first, self.end)
        return (_edited(corpus, number) for number in range(self.first, self.end))


PARTS = (
    *(Part("edited plans", first, first + 100) for first in range(0, 500, 100)),
    *(Part("documents", first, first + 2500) for first in range(0, 100_000, 2500)),
)


def main(quick: bool) -> dict:
    """The parts that are missing, as many as fit the time; in quick form as many cases as fit some seconds."""
    if quick:
        parts = [Part("documents", 0, 100_000), Part("edited plans", 0, _QUICK_EDITED)]
        return _figures([played(part, _QUICK_S) for part in parts], num_missing=0)
    rows = kept_parts(_FILE, "rows", "part", dict.fromkeys((part.name for part in PARTS), _SETTINGS))
    missing, end_s = [part for part in PARTS if part.name not in rows], time.monotonic() + _LIMIT_S
    while missing and time.monotonic() < end_s:
        for row in _side_by_side(missing[:2]):
            rows[row["part"]] = row
            print({key: value for key, value in row.items() if key != "by_kind"}, file=sys.stderr, flush=True)
            keep(_FILE, record_of(_FILE, _of(rows)))
        missing = missing[2:]
    return _of(rows)


def _side_by_side(parts: Sequence[Part]) -> Iterable[dict[str, Any]]:
    with ProcessPoolExecutor(len(parts), multiprocessing.get_context("spawn")) as pool:
        for done in as_completed([pool.submit(played, part) for part in parts]):
            yield done.result()


def played(part: Part, limit_s: float = 3600.0) -> dict[str, Any]:
    """What came of the cases of a part, or of as many as fit the time."""
    with TemporaryDirectory(prefix="gnnplan-fuzz-") as folder:
        found = play_watched(part.cases(Corpus(Path(folder))), limit_s)
    counts = Counter(each.outcome for each in found)
    return {
        "part": part.name,
        "settings": _SETTINGS,
        "sort": part.sort,
        "cases": len(found),
        "by_kind": dict(Counter(each.kind for each in found)),
        **{outcome: counts[outcome] for outcome in OUTCOMES},
        "findings": [_said(each) for each in found if each.outcome in FINDINGS][:_SHOWN],
        **about(),
    }


def _of(rows: dict[str, dict[str, Any]]) -> dict[str, Any]:
    kept = [rows[part.name] for part in PARTS if part.name in rows]
    return _figures(kept, num_missing=len(PARTS) - len(kept)) | {"rows": kept}


def _figures(rows: Sequence[dict[str, Any]], *, num_missing: int) -> dict[str, Any]:
    by_kind = sum((Counter(row["by_kind"]) for row in rows), Counter())
    cases = {sort: sum(row["cases"] for row in rows if row["sort"] == sort) for sort in ("documents", "edited plans")}
    return {
        "documents": cases["documents"],
        "plans_run": cases["edited plans"],
        "parts_missing": num_missing,
        "by_kind": dict(by_kind),
        **{outcome: sum(row[outcome] for row in rows) for outcome in OUTCOMES},
        "findings": [words for row in rows for words in row["findings"]][:_SHOWN],
    }


def _edited(corpus: Corpus, number: int) -> Case:
    return Case(f"edit {number}", "edited plan", lambda: edited_plan(corpus, number))


def _said(found: Found) -> str:
    return f"{found.name}: {found.outcome}: {found.words}"
