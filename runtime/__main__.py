"""`torchrun -m gnnplan.runtime PLAN FOLDER`: one worker of a plan. `gnnplan run` starts it."""

from __future__ import annotations

import argparse
from pathlib import Path

from gnnplan.profiles.torchrun import importing, leave, start_worker, worker_parser
from gnnplan.runtime.checkpoint.stopping import StopRequest

IMPORTS = ("gnnplan.planner.checkpoints", "gnnplan.runtime.worker", "gnnplan.planner.preloaded")  # for the agent


def main() -> None:
    """Runs this process's worker; the folder holds `shards/`."""
    parser = worker_parser("gnnplan.runtime", __doc__)
    parser.add_argument("plan", type=Path, help="plan file")
    parser.add_argument("--evaluations", type=int, default=0, help="how often accuracies are told on the way")
    parser.add_argument("--checkpoint-every", help="10s, 20 (epochs) or never (default: 60s)")
    parser.add_argument("--keep", type=int, default=2, help="checkpoints that stay")
    parser.add_argument("--resume", action="store_true", help="go on from the last checkpoint")
    start_worker(parser, _run)


def _run(arguments: argparse.Namespace) -> None:
    stop = StopRequest()
    with importing():
        from gnnplan.planner.checkpoints import CheckpointOptions
        from gnnplan.runtime.worker import RunOptions, run_worker

    checkpoints = CheckpointOptions.of(arguments.checkpoint_every, arguments.keep, arguments.resume)
    options = RunOptions(arguments.timeout_s, arguments.evaluations, checkpoints)
    run_worker(arguments.plan, arguments.folder, options, stop)


if __name__ == "__main__":
    main()
    leave()
