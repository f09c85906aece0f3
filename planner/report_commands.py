"""The verb `report`: a plan or a run as one HTML file."""

from __future__ import annotations

import argparse
import json
from pathlib import Path

from rich.console import Console

from gnnplan.planner.report.output import print_wrote
from gnnplan.planner.report_file import write_report


def report(arguments: argparse.Namespace) -> None:
    """`gnnplan report`."""
    output = arguments.output or _beside(arguments.source)
    with Console(stderr=True).status("reading the plan") as status:
        write_report(arguments.source, output, on_step=status.update)
    if arguments.json:
        print(json.dumps({"report": str(output), "bytes": output.stat().st_size}))
    print_wrote(arguments, output)


def _beside(source: Path) -> Path:
    return source / "report.html" if source.is_dir() else source.with_suffix(".html")
