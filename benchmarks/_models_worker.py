"""One worker of the `models` benchmark: trains every planned module beside its peers."""

from __future__ import annotations

import argparse
import json
import os
from datetime import timedelta
from pathlib import Path

import torch
import torch.distributed as dist

from gnnplan.planner.plan import Plan
from gnnplan.planner.program_shard import FIRST_WEIGHTS, ProgramShard
from gnnplan.profiles.launch import reporting_errors
from gnnplan.runtime.net import read_weights
from gnnplan.runtime.program_trainer import ProgramTrainer

TIMEOUT_S = 120.0


def train(folder: Path, rank: int) -> None:
    """Trains the plan of a folder; rank 0 writes losses and weights beside it."""
    plan, shards = Plan.load(folder / "plan.json"), folder / "shards"
    shard = ProgramShard.load(shards / f"worker_{rank}.npz")
    trainer = ProgramTrainer(plan, shard, rank, torch.device("cpu"), read_weights(shards / FIRST_WEIGHTS))
    losses = [trainer.train_epoch(epoch, traced=False).loss for epoch in range(plan.job.training.epochs)]
    if rank == 0:
        torch.save(trainer.net.state_dict(), folder / "model.pt")
        (folder / "losses.json").write_text(json.dumps(losses))


def main() -> None:
    """Trains the plans of all folders."""
    parser = argparse.ArgumentParser()
    parser.add_argument("folder", type=Path)
    arguments = parser.parse_args()
    rank = int(os.environ["RANK"])
    with reporting_errors(arguments.folder, rank):
        torch.set_num_threads(1)
        dist.init_process_group("gloo", timeout=timedelta(seconds=TIMEOUT_S))
        for folder in sorted(path.parent for path in arguments.folder.glob("*/plan.json")):
            train(folder, rank)
        dist.destroy_process_group()


if __name__ == "__main__":
    main()
