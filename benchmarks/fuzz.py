"""Mutated documents and graphs: each is refused in one line, or used; edited plans that are used train as they should.

Documents are read and used as the verbs use them, in a process of their own with a watch over every case. `refused` and
`accepted` add up with the findings to `documents`. Edited plans that are accepted are trained by the sequential
executor beside plain PyG: `silently_wrong` counts those whose losses differ.
"""

from __future__ import annotations

import time
from collections import Counter
from pathlib import Path
from tempfile import TemporaryDirectory

from benchmarks._fuzz_cases import OUTCOMES, Case, cases_of, edited_plan
from benchmarks._fuzz_corpus import Corpus
from benchmarks._fuzz_watch import play_watched

_LIMIT_S = {True: 8.0, False: 150.0}
_NUM_EDITED = {True: 12, False: 500}
_SHOWN = 20


def main(quick: bool) -> dict:
    """Cases in an order that a seed fixes, as many as fit the time."""
    begun_s = time.monotonic()
    with TemporaryDirectory(prefix="gnnplan-fuzz-") as folder:
        corpus = Corpus(Path(folder))
        played = play_watched(cases_of(corpus), limit_s=_LIMIT_S[quick])
        edits = [
            Case(f"edit {i}", "edited plan", lambda i=i: edited_plan(corpus, i)) for i in range(_NUM_EDITED[quick])
        ]
        ran = play_watched(edits, limit_s=_LIMIT_S[quick])
    counts = Counter(found.outcome for found in (*played, *ran))
    findings = [found for found in (*played, *ran) if found.outcome not in ("refused", "accepted")]
    return {
        "documents": len(played),
        "by_kind": dict(Counter(found.kind for found in played)),
        "plans_run": len(ran),
        **{outcome: counts[outcome] for outcome in OUTCOMES},
        "seconds": time.monotonic() - begun_s,
        "findings": [f"{found.name}: {found.words}" for found in findings][:_SHOWN],
    }
