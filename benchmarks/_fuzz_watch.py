"""Plays cases in a process of their own, and ends one that takes too long or too much memory."""

from __future__ import annotations

import multiprocessing
import os
import resource
import time
import traceback
import warnings
from collections.abc import Iterable
from contextlib import redirect_stderr
from dataclasses import dataclass
from multiprocessing.connection import Connection
from pathlib import Path

from benchmarks._fuzz_cases import Case, SilentlyWrongError
from gnnplan.profiles.errors import NoPlanFitsError, UserError

_CASE_S = 20.0
_ROOM_BYTES = 3 * 2**30  # that a case may take beside what the process has


@dataclass(frozen=True)
class Found:
    """What came of a case: one of `OUTCOMES`, and the error's words."""

    name: str
    kind: str
    outcome: str
    words: str


def play_watched(cases: Iterable[Case], limit_s: float) -> list[Found]:
    """Outcomes of as many cases as fit the time."""
    found: list[Found] = []
    cases, end_s = list(cases), time.monotonic() + limit_s
    while len(found) < len(cases) and time.monotonic() < end_s:
        found += _play_some(cases[len(found) :], end_s)
    return found


def _play_some(cases: list[Case], end_s: float) -> list[Found]:
    """Up to the first case that has to be ended, which is the last one found."""
    found: list[Found] = []
    context = multiprocessing.get_context("fork")
    listening, telling = context.Pipe(duplex=False)
    child = context.Process(target=_play_all, args=(cases, telling), daemon=True)
    child.start()
    telling.close()
    try:
        for case in cases:
            if time.monotonic() > end_s:
                break
            found.append(_outcome_of(case, listening))
            if found[-1].outcome in ("hangs", "over_memory"):
                break
    finally:
        child.kill()
        child.join()
        listening.close()
    return found


def _outcome_of(case: Case, listening: Connection) -> Found:
    if not listening.poll(_CASE_S):
        return Found(case.name, case.kind, "hangs", f"took more than {_CASE_S:g} s")
    try:
        return Found(case.name, case.kind, *listening.recv())
    except EOFError:  # ended by the kernel
        return Found(case.name, case.kind, "over_memory", "its process was ended")


def _play_all(cases: list[Case], telling: Connection) -> None:
    warnings.simplefilter("ignore")
    pages = int(Path("/proc/self/statm").read_text().split()[0])
    most = pages * os.sysconf("SC_PAGE_SIZE") + _ROOM_BYTES
    resource.setrlimit(resource.RLIMIT_AS, (most, most))
    with open(os.devnull, "w") as nowhere, redirect_stderr(nowhere):
        for case in cases:
            telling.send(_played(case))


def _played(case: Case) -> tuple[str, str]:
    try:
        case.use()
    except (UserError, NoPlanFitsError) as error:
        return ("tracebacks", f"more than a line: {error}") if "\n" in str(error) else ("refused", str(error))
    except SilentlyWrongError as error:
        return "silently_wrong", str(error)
    except MemoryError:
        return "over_memory", "no memory was left"
    except Exception:
        return "tracebacks", " | ".join(traceback.format_exc().splitlines()[-4:])
    return "accepted", ""
