"""`torchrun -m gnnplan.runtime.pilot FOLDER --job=JOB`: trains jobs, writes their curves; `gnnplan pilot` starts it."""

from __future__ import annotations

import argparse
from pathlib import Path

from gnnplan.profiles.torchrun import importing, leave, start_worker, worker_parser

IMPORTS = ("gnnplan.planner.pilot.run", "gnnplan.runtime.pilot.train")  # for the agent


def main() -> None:
    """Runs this process's worker."""
    parser = worker_parser("gnnplan.runtime.pilot", __doc__)
    parser.add_argument("--job", type=Path, action="append", required=True, help="job file; once for every training")
    parser.add_argument("--epochs", type=int, required=True, help="that are trained at most")
    parser.add_argument("--accuracy", type=float, default=1.0, help="at which the training ends before")
    start_worker(parser, _run)


def _run(arguments: argparse.Namespace) -> None:
    with importing():
        from gnnplan.planner.pilot.contract import Pilots
        from gnnplan.planner.pilot.run import CURVES_FILE
        from gnnplan.profiles.torchrun import local_device
        from gnnplan.runtime.pilot.train import loaded_curve

    device, limits = local_device(), (arguments.epochs, arguments.accuracy)
    curves = tuple(loaded_curve(path, device, *limits) for path in arguments.job)
    Pilots(curves=curves).save(arguments.folder / CURVES_FILE)


if __name__ == "__main__":
    main()
    leave()
