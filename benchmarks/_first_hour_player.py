"""Plays what a newcomer types: in a shell of a clean folder, or in this process where that has to be quick."""

from __future__ import annotations

import contextlib
import io
import os
import runpy
import shlex
import signal
import subprocess
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from benchmarks._common import OUT, ROOT
from gnnplan.planner.cli import main
from gnnplan.profiles.errors import UserError
from gnnplan.profiles.kept import CACHE_VARIABLE


@dataclass(frozen=True)
class Task:
    """Something that a newcomer wants to know or to have.

    Args:
        name: in a word.
        page: that says how, from the repository's root.
        files: what is saved first, by name; values are their text.
        commands: what is typed then, in order.
        answer: what is read off in the end, in words; it raises `UserError` where there is none.
        is_quick: it neither measures nor trains by workers, so that it takes seconds.
    """

    name: str
    page: str
    commands: tuple[str, ...]
    answer: Callable[[Path, str], str]
    files: Mapping[str, str] = field(default_factory=dict)
    is_quick: bool = False


def play(task: Task, folder: Path, typed: Callable[[str, Path], str]) -> str:
    """Saves the files, types the commands, and reads the answer off.

    Args:
        folder: clean, for this task alone.
        typed: does one command in a folder and returns what was printed.

    Raises:
        UserError: a command failed, or what came out is no answer.
    """
    for name, text in task.files.items():
        (folder / name).write_text(text, encoding="utf-8")
    printed = ""
    for command in task.commands:
        printed = typed(command, folder)
    return task.answer(folder, printed)


def in_a_shell(command: str, folder: Path, timeout_s: float = 1800.0) -> str:
    """What a command prints to standard output; `python` and `gnnplan` are those that run this."""
    here = Path(sys.executable).parent
    beside = {"PATH": f"{here}{os.pathsep}{os.environ['PATH']}", "PYTHONPATH": str(ROOT)}
    beside[CACHE_VARIABLE] = str(OUT / "first_hour" / "cache")  # what is measured of the machine, for the next ones too
    shell = subprocess.Popen(
        ["bash", "-c", command],
        cwd=folder,
        env={**os.environ, **beside},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    try:
        printed, complaints = shell.communicate(timeout=timeout_s)
    except subprocess.TimeoutExpired:
        os.killpg(shell.pid, signal.SIGKILL)
        shell.communicate()
        raise UserError(f"{command}: took longer than {timeout_s:g} s") from None
    if shell.returncode:
        raise UserError(f"{command}: ended with exit code {shell.returncode}: {_last_line(complaints)}")
    return printed


def in_this_process(command: str, folder: Path) -> str:
    """The same of one `gnnplan VERB ...` or `python FILE`, without a shell: nothing is imported again."""
    program, *words = shlex.split(command)
    printed = io.StringIO()
    with contextlib.chdir(folder), contextlib.redirect_stdout(printed):
        if program == "python":
            runpy.run_path(words[0], run_name="__main__")
            return printed.getvalue()
        assert program == "gnnplan"
        code = main(words)
    if code:
        raise UserError(f"{command}: ended with exit code {code}")
    return printed.getvalue()


def _last_line(text: str) -> str:
    return (text.strip().splitlines() or ["nothing was said"])[-1]
