"""`python -m benchmarks NAME [--quick]`: runs one benchmark and keeps its result."""

from __future__ import annotations

import argparse
import importlib
import json
import os
import platform
import sys
import time
from pathlib import Path

from profiles.contract import replacing
from profiles.errors import UserError

RESULTS = Path(__file__).parent / "results"
_OWN = {"__main__", "__init__"}


def names() -> list[str]:
    """Benchmarks in this folder: the modules with a `main(quick)`."""
    found = (path.stem for path in Path(__file__).parent.glob("*.py"))
    return sorted(name for name in found if name not in _OWN and not name.startswith("_"))


def main() -> int:
    """Runs the named benchmark; a full run's JSON also goes to `benchmarks/results/NAME.json`, or where `file` says."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks", epilog="example: python -m benchmarks exactness --quick"
    )
    parser.add_argument("name", choices=names())
    parser.add_argument("--quick", action="store_true", help="a small form that CI can afford; result not kept")
    arguments = parser.parse_args()
    try:
        result = importlib.import_module(f"benchmarks.{arguments.name}").main(arguments.quick)
    except UserError as error:
        print(f"benchmarks: {error}", file=sys.stderr)
        return 2
    file = result.pop("file", arguments.name)
    record = {
        "benchmark": arguments.name,
        "command": f"python -m benchmarks {arguments.name}{' --quick' if arguments.quick else ''}",
        "date": time.strftime("%Y-%m-%d"),
        "machine": f"{platform.machine()}, {len(os.sched_getaffinity(0))} cores",
        **result,
    }
    if not arguments.quick:
        with replacing(RESULTS / f"{file}.json") as temporary:
            temporary.write_text(json.dumps(record, indent=1) + "\n")
    print(json.dumps(record))
    return 0


if __name__ == "__main__":
    sys.exit(main())
