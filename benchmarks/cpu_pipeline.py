"""The CPU's mini-batch pipeline: epochs predicted from profiled stages against those that then run.

Sampling threads (1, 2, and 4 where there are more cores than that) make batches while one thread trains them, all on
the CPU; the linear model takes next to no time, so that it waits for batches. A row's stages are profiled once; then
epochs run one after another. Time that the machine gave to anyone else is in the epochs and not in the prediction, so
rows tell how much that was.
"""

from __future__ import annotations

import os
import time
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from rich.console import Console
from rich.table import Table
from torch_geometric.data import Data

from benchmarks._common import median_and_spread
from benchmarks._mini_batch import MODELS, ON_CPU, QUICK, Setting, data_of, seeds_of, stages_of
from gnnplan.planner.minibatch.policy import Buffers
from gnnplan.planner.minibatch.simulate import simulate
from gnnplan.profiles.profiler import num_usable_cores
from gnnplan.runtime.mini_batch.executor import run_epoch
from gnnplan.runtime.mini_batch.profile import profile_stages
from gnnplan.runtime.sampling.loader import NeighborLoader

_CPU = torch.device("cpu")
_BY_CPU = Buffers(10, 10, 0)
_PROFILED_BATCHES = 12  # as `gnnplan plan` profiles
_REPEATS = 7


def main(quick: bool) -> dict:
    """Every model with every number of threads."""
    setting = QUICK if quick else ON_CPU
    num_cores = num_usable_cores()
    torch.set_num_threads(1)
    data = data_of(setting)
    threads = (1, 2, 4) if num_cores > 4 else (1, 2)
    kinds = ["sage"] if quick else ["linear", *MODELS]
    rows = [_row(data, setting, kind, count, 2 if quick else _REPEATS) for count in threads for kind in kinds]
    _show(rows)
    errors = np.abs([row["error"] for row in rows])
    return {
        "cores": num_cores,
        "fan_outs": setting.fan_outs,
        "batch_size": setting.batch_size,
        "batches_an_epoch": setting.num_batches,
        "repeats": len(rows[0]["epochs_s"]),
        "worst_error": float(errors.max()),
        "mean_error": float(errors.mean()),
        "rows": rows,
    }


def _row(data: Data, setting: Setting, kind: str, num_threads: int, repeats: int) -> dict:
    loader = NeighborLoader(
        data, setting.fan_outs, seeds_of(setting), batch_size=setting.batch_size, num_workers=num_threads
    )
    stages = stages_of(kind, setting, loader, _CPU)
    watch = _CpuWatch.begin()
    with stages.undone():
        profile = profile_stages(
            stages, _PROFILED_BATCHES, num_distinct=setting.num_batches, num_cpu_threads=num_threads
        )
    predicted_s = simulate(profile.times, _BY_CPU, setting.num_batches, num_threads).epoch_s
    epochs_s = []
    for number in range(repeats):
        epoch = run_epoch(stages, _BY_CPU, setting.num_batches, number, num_cpu_threads=num_threads)
        epochs_s.append(max(span.end_s for span in epoch.spans))
    median_s, spread_s = median_and_spread(epochs_s)
    return {
        "model": kind,
        "threads": num_threads,
        "predicted_s": predicted_s,
        "measured_s": median_s,
        "spread_s": spread_s,
        "error": predicted_s / median_s - 1,
        "others_share": watch.others_share(),
        "times_s": profile.times.model_dump(exclude_none=True),
        "variation": profile.variation,
        "epochs_s": epochs_s,
    }


@dataclass(frozen=True)
class _CpuWatch:
    """A moment, and the processor seconds spent until then: on this machine, and by this process."""

    at_s: float
    machine_s: float
    own_s: float

    @staticmethod
    def begin() -> _CpuWatch:
        own = os.times()
        fields = [int(field) for field in Path("/proc/stat").read_text().split("\n", 1)[0].split()[1:9]]
        idle = fields[3] + fields[4]
        machine_s = (sum(fields) - idle) / os.sysconf("SC_CLK_TCK")
        return _CpuWatch(time.monotonic(), machine_s, own.user + own.system)

    def others_share(self) -> float:
        """Of the time of all cores since then, what other processes, the kernel and other machines had."""
        now = _CpuWatch.begin()
        others_s = (now.machine_s - self.machine_s) - (now.own_s - self.own_s)
        return max(0.0, others_s / ((now.at_s - self.at_s) * (os.cpu_count() or 1)))


def _show(rows: list[dict]) -> None:
    table = Table(title="one epoch of the CPU's pipeline")
    for column in ("model", "threads", "predicted", "measured (median ± iqr)", "error", "others"):
        table.add_column(column, justify="left" if column == "model" else "right")
    for row in rows:
        table.add_row(
            row["model"],
            str(row["threads"]),
            f"{row['predicted_s']:.3f} s",
            f"{row['measured_s']:.3f} ± {row['spread_s']:.3f} s",
            f"{row['error']:+.1%}",
            f"{row['others_share']:.0%}",
        )
    Console().print(table)
