"""`torchrun -m gnnplan.runtime PLAN FOLDER`: one worker of a plan. `gnnplan run` starts it."""

from __future__ import annotations

import argparse
from pathlib import Path

from gnnplan.profiles.torchrun import importing, leave, start_worker, worker_parser


def main() -> None:
    """Runs this process's worker; the folder holds `shards/`."""
    parser = worker_parser("gnnplan.runtime", __doc__)
    parser.add_argument("plan", type=Path, help="plan file")
    parser.add_argument("--evaluations", type=int, default=0, help="how often accuracies are told on the way")
    start_worker(parser, _run)


def _run(arguments: argparse.Namespace) -> None:
    with importing():
        from gnnplan.runtime.worker import run_worker

    run_worker(arguments.plan, arguments.folder, timeout_s=arguments.timeout_s, num_evaluations=arguments.evaluations)


if __name__ == "__main__":
    main()
    leave()
