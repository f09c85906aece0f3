"""`torchrun -m runtime.mini_batch JOB FOLDER`: one worker of a mini-batch job. `gnnplan minibatch` starts it."""

from __future__ import annotations

import argparse
import os
from pathlib import Path

from profiles.launch import reporting_errors


def main() -> None:
    """Parses the worker's arguments and runs it, reporting errors to the launcher's folder."""
    parser = argparse.ArgumentParser(prog="torchrun -m runtime.mini_batch", description=__doc__)
    parser.add_argument("job", type=Path, help="job file")
    parser.add_argument("folder", type=Path, help="run folder")
    parser.add_argument("--timeout-s", type=float, default=300.0, help="longest wait for a stage or another worker")
    arguments = parser.parse_args()
    with reporting_errors(arguments.folder, int(os.environ["RANK"])):
        from runtime.mini_batch.job_worker import run_worker

        run_worker(arguments.job, arguments.folder, timeout_s=arguments.timeout_s)


if __name__ == "__main__":
    main()
