"""`torchrun -m profiles.worker FOLDER --grid NAME`: one profiling worker. `gnnplan profile` starts it."""

from __future__ import annotations

import argparse
import os
from datetime import timedelta
from pathlib import Path

from profiles.grids import GRIDS
from profiles.launch import reporting_errors


def main() -> None:
    """Measures beside the other workers; the first worker of each host writes its profile."""
    parser = argparse.ArgumentParser(prog="torchrun -m profiles.worker", description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--grid", choices=sorted(GRIDS), default="quick")
    arguments = parser.parse_args()
    rank = int(os.environ["RANK"])
    with reporting_errors(arguments.folder, rank):
        import torch
        import torch.distributed as dist
        import torch_geometric.nn  # noqa: F401  resident in a training worker, so counted as its base

        from profiles.profiler import measure_as_worker, profile_path

        if int(os.environ["WORLD_SIZE"]) > 1:
            backend = "nccl" if torch.cuda.is_available() else "gloo"
            dist.init_process_group(backend, timeout=timedelta(seconds=300))
        try:
            profile = measure_as_worker(arguments.grid)
        finally:
            if dist.is_initialized():
                dist.destroy_process_group()
        if profile is not None:
            profile.save(profile_path(arguments.folder, int(os.environ["GROUP_RANK"])))


if __name__ == "__main__":
    main()
