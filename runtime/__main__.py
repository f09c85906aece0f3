"""`torchrun -m runtime PLAN FOLDER`: one worker of a plan. `gnnplan run` starts it."""

from __future__ import annotations

import argparse
import os
from pathlib import Path

from profiles.launch import reporting_errors


def main() -> None:
    """Parses the worker's arguments and runs it, reporting errors to the launcher's folder."""
    parser = argparse.ArgumentParser(prog="torchrun -m runtime", description=__doc__)
    parser.add_argument("plan", type=Path, help="plan file")
    parser.add_argument("folder", type=Path, help="run folder that holds shards/")
    parser.add_argument("--timeout-s", type=float, default=300.0, help="longest wait in a collective")
    arguments = parser.parse_args()
    with reporting_errors(arguments.folder, int(os.environ["RANK"])):
        from runtime.worker import run_worker

        run_worker(arguments.plan, arguments.folder, timeout_s=arguments.timeout_s)


if __name__ == "__main__":
    main()
