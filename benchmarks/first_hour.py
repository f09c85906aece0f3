"""Twelve tasks of somebody's first hour, each played from a page of the documentation to its answer.

A task is a few files to save and at most five commands to type. It is done where every command succeeds and what comes
out is an answer: an accuracy that is no chance, the cheaper of two machines, all epochs of a run that was ended.
The page that says how is named beside each; `tests/benchmarks/test_first_hour.py` holds that the page has the verbs and
options that are typed. The quick form plays the tasks that neither measure a machine nor start workers.
"""

from __future__ import annotations

import tempfile
import time
from pathlib import Path

from rich.console import Console
from rich.table import Table

from benchmarks._first_hour_player import Task, in_a_shell, in_this_process, play
from benchmarks._first_hour_tasks import TASKS
from gnnplan.profiles.errors import RunFailedError, UserError


def main(quick: bool) -> dict:
    """Plays the tasks one after another; what is measured of the machine is kept for the next ones."""
    tasks = [task for task in TASKS if task.is_quick or not quick]
    rows = [_row(task, quick) for task in tasks]
    _show(rows)
    return {
        "tasks": len(TASKS),
        "played": len(rows),
        "done": sum(row["done"] for row in rows),
        "most_commands": max(len(task.commands) for task in TASKS),
        "rows": rows,
    }


def _row(task: Task, quick: bool) -> dict:
    begin_s = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="first-hour-") as folder:
        try:
            done, words = True, play(task, Path(folder), in_this_process if quick else in_a_shell)
        except (UserError, RunFailedError, OSError, LookupError, ValueError) as error:
            done, words = False, f"{type(error).__name__}: {error}"
    seconds = time.monotonic() - begin_s
    print(f"{task.name}: {words}", flush=True)
    return {
        "task": task.name,
        "page": task.page,
        "commands": len(task.commands),
        "done": done,
        "answer": words,
        "seconds": seconds,
    }


def _show(rows: list[dict]) -> None:
    table = Table(title="the first hour")
    for column in ("task", "commands", "done", "answer"):
        table.add_column(column, justify="right" if column == "commands" else "left")
    for row in rows:
        table.add_row(row["task"], str(row["commands"]), "yes" if row["done"] else "no", row["answer"])
    Console().print(table)
