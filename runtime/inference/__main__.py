"""`torchrun -m gnnplan.runtime.inference PLAN WEIGHTS FOLDER`: a worker of an inference, started by `gnnplan infer`."""

from __future__ import annotations

import argparse
from pathlib import Path

from gnnplan.profiles.torchrun import importing, leave, start_worker, worker_parser

IMPORTS = ("gnnplan.runtime.inference.worker", "gnnplan.planner.preloaded")  # for the agent


def main() -> None:
    """Runs this process's worker; the folder holds `shards/`."""
    parser = worker_parser("gnnplan.runtime.inference", __doc__)
    parser.add_argument("plan", type=Path, help="plan file")
    parser.add_argument("weights", type=Path, help="model.pt, or the folder of a checkpoint")
    parser.add_argument("--of", default="", help="key of the operator whose rows are written (default: the logits)")
    start_worker(parser, _run)


def _run(arguments: argparse.Namespace) -> None:
    with importing():
        from gnnplan.runtime.inference.worker import infer_on_worker

    infer_on_worker(arguments.plan, arguments.weights, arguments.folder, arguments.of, arguments.timeout_s)


if __name__ == "__main__":
    main()
    leave()
