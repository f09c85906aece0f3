"""What verbs print: a table or JSON, which files they wrote, and words as they are."""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Any

from rich.console import Console, RenderableType


def print_result(arguments: argparse.Namespace, facts: dict[str, Any], table: RenderableType) -> None:
    """Prints a table; with `--json` the facts behind it."""
    if arguments.json:
        print(json.dumps(facts))
    else:
        Console().print(table, highlight=False)


def print_wrote(arguments: argparse.Namespace, *paths: Path | None) -> None:
    """Says which files were written, a line each; nothing with `--json`."""
    if not arguments.json:
        for path in filter(None, paths):
            print_plain(f"wrote {path}")


def print_plain(words: str, console: Console | None = None) -> None:
    """Prints words as they are (None: on stdout): brackets are no markup, and no line, such as a path, is broken."""
    (console or Console()).print(words, highlight=False, markup=False, soft_wrap=True)
