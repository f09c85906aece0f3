"""`python -m benchmarks NAME [--quick]`: runs one benchmark and keeps its result."""

from __future__ import annotations

import argparse
import importlib
import json
import sys
from pathlib import Path

from benchmarks._results import keep, record_of
from gnnplan.profiles.errors import UserError

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
    record = record_of(arguments.name, result, quick=arguments.quick)
    if not arguments.quick:
        keep(file, record)
    print(json.dumps(record))
    return 0


if __name__ == "__main__":
    sys.exit(main())
