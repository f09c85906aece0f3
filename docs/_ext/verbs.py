"""The directive `verbs`: the command line's verbs and their options, from its own parser."""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from typing import Any

from docutils import nodes
from sphinx.application import Sphinx
from sphinx.util.docutils import SphinxDirective

from gnnplan.planner.cli import _parser

_OF_ALL = ("help", "json")  # the page says these once


class VerbsDirective(SphinxDirective):
    """A section for each verb, with its example and a table of its options."""

    def run(self) -> list[nodes.Node]:
        """The sections, as nodes."""
        text = "\n".join(line for name, verb in _verbs().items() for line in _section(name, verb))
        return self.parse_text_to_nodes(text, allow_section_headings=True)


def _verbs() -> dict[str, argparse.ArgumentParser]:
    found = [action for action in _parser()._actions if isinstance(action, argparse._SubParsersAction)]
    return dict(found[0].choices)


def _section(name: str, verb: argparse.ArgumentParser) -> Iterator[str]:
    example = (verb.epilog or "").removeprefix("example: ")
    yield from (f"## {name}", "", verb.description or "", "", "```", example, "```", "")
    yield from ("| argument | meaning | default |", "| --- | --- | --- |")
    for action in verb._actions:
        if action.dest in _OF_ALL:
            continue
        shown = ", ".join(action.option_strings) or str(action.metavar or action.dest)
        default = action.default
        default = "" if default in (None, False, argparse.SUPPRESS) or not action.option_strings else f"`{default}`"
        meaning = (action.help or f"{action.dest} file to read").replace("|", "\\|")
        yield f"| `{shown}` | {meaning} | {default} |"
    yield ""


def setup(app: Sphinx) -> dict[str, Any]:
    """Registers the directive."""
    app.add_directive("verbs", VerbsDirective)
    return {"parallel_read_safe": True}
