"""`torchrun -m gnnplan.profiles.worker FOLDER --grid NAME`: one profiling worker. `gnnplan profile` starts it."""

from __future__ import annotations

import argparse
import os
from importlib import import_module

from gnnplan.profiles.grids import GRIDS
from gnnplan.profiles.torchrun import importing, leave, local_device, process_group, start_worker, worker_parser

IMPORTS = ("gnnplan.runtime.worker", "gnnplan.planner.preloaded", "gnnplan.profiles.profiler")  # for the agent


def main() -> None:
    """Measures beside the other workers; the first worker of each host writes its profile."""
    parser = worker_parser("gnnplan.profiles.worker", __doc__)
    parser.add_argument("--grid", choices=sorted(GRIDS), default="quick")
    start_worker(parser, _run)


def _run(arguments: argparse.Namespace) -> None:
    with importing():
        import_module("gnnplan.runtime.worker")  # what a training worker is made of, which counts as its base
        from gnnplan.profiles.profiler import measure_as_worker, profile_path

    with process_group(local_device(), arguments.timeout_s):
        profile = measure_as_worker(arguments.grid)
    if profile is not None:
        profile.save(profile_path(arguments.folder, int(os.environ["GROUP_RANK"])))


if __name__ == "__main__":
    main()
    leave()
