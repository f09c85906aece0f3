"""`torchrun -m gnnplan.runtime.mini_batch JOB FOLDER`: measures a job's mini-batches. `gnnplan plan` starts it."""

from __future__ import annotations

import argparse
from pathlib import Path

from gnnplan.profiles.torchrun import importing, leave, start_worker, worker_parser

IMPORTS = ("gnnplan.runtime.mini_batch.measure",)  # for the agent


def main() -> None:
    """Runs this process's worker."""
    parser = worker_parser("gnnplan.runtime.mini_batch", __doc__)
    parser.add_argument("job", type=Path, help="job file")
    start_worker(parser, _run)


def _run(arguments: argparse.Namespace) -> None:
    with importing():
        from gnnplan.runtime.mini_batch.measure import measure_worker

    measure_worker(arguments.job, arguments.folder, timeout_s=arguments.timeout_s)


if __name__ == "__main__":
    main()
    leave()
