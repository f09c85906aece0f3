"""What a page asks its reader to do: files to save, and shell commands to type.

A block of `sh` holds commands. A comment `<!-- file: NAME -->` above a block says that the reader saves it as NAME.
A comment `<!-- not run: WHY -->` above a block of `sh` says why a script leaves it out.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[2]
PAGES = (
    "README.md",
    "docs/tutorials/own_graph.md",
    "docs/tutorials/own_model.md",
    "docs/tutorials/rent_or_buy.md",
    "docs/tutorials/mini_batches.md",
    "docs/tutorials/link_prediction.md",
    "docs/tutorials/two_machines.md",
    "docs/training.md",
    "docs/infer.md",
    "docs/what_if.md",
    "docs/reference/api.md",
)
_FENCE = re.compile(r"^```(\w*)\s*$")
_COMMENT = re.compile(r"^<!-- (file|not run): (.+) -->$")


@dataclass(frozen=True)
class Block:
    """A fenced block, with what the comment above it says.

    Args:
        line: of its first line of content, from 1.
        file: name to save it as (empty: none).
        not_run: why its commands are left out (empty: they are run).
    """

    page: str
    line: int
    language: str
    text: str
    file: str = ""
    not_run: str = ""


@dataclass(frozen=True)
class Step:
    """Something that the reader does: a command to type, or a file to save."""

    page: str
    line: int
    command: str = ""
    file: str = ""
    text: str = ""

    @property
    def where(self) -> str:
        """The page and the line."""
        return f"{self.page}:{self.line}"


def blocks(page: str, text: str) -> Iterator[Block]:
    """The fenced blocks of a page, in order."""
    comment: dict[str, str] = {}
    opened: tuple[int, str] | None = None
    lines: list[str] = []
    for number, line in enumerate(text.splitlines(), start=1):
        if opened is not None:
            if line.startswith("```"):
                yield Block(page, opened[0], opened[1], "\n".join(lines) + "\n", **comment)
                opened, comment, lines = None, {}, []
            else:
                lines.append(line)
        elif found := _FENCE.match(line):
            opened = (number + 1, found[1])
        elif said := _COMMENT.match(line):
            comment = {said[1].replace(" ", "_"): said[2]}
        elif line.strip():
            comment = {}


def commands(block: Block) -> Iterator[Step]:
    """The commands of a block: lines that end in a backslash go on, comments and empty lines are none."""
    parts: list[str] = []
    first = block.line
    for number, line in enumerate(block.text.splitlines(), start=block.line):
        if not parts:
            first = number
        if not parts and (not line.strip() or line.startswith("#")):
            continue
        parts.append(line)
        if not line.endswith("\\"):
            yield Step(block.page, first, command="\n".join(parts))
            parts = []


def steps(page: str, root: Path = ROOT) -> Iterator[Step]:
    """What a reader of the page does, in order."""
    for block in blocks(page, (root / page).read_text(encoding="utf-8")):
        if block.file:
            yield Step(page, block.line, file=block.file, text=block.text)
        elif block.language == "sh" and not block.not_run:
            yield from commands(block)
