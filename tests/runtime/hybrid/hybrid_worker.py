"""One worker of `test_hybrid_training`: trains every case in the folder beside its peers and writes what it saw."""

import gc
import os
import sys
from dataclasses import is_dataclass
from datetime import timedelta
from pathlib import Path

import numpy as np
import torch
import torch.distributed as dist

from gnnplan.planner.hybrid.dependencies import Rates
from gnnplan.planner.hybrid.levels import levels_of
from gnnplan.planner.hybrid.staging import Staged
from gnnplan.planner.job import Job
from gnnplan.planner.plan import FullBatchDecision
from gnnplan.planner.shard import Shard
from gnnplan.planner.steps import build_program
from gnnplan.profiles.kernels import pool
from gnnplan.profiles.launch import reporting_errors
from gnnplan.runtime.comm import HaloExchanger
from gnnplan.runtime.hybrid.adjusting import Adjusting
from gnnplan.runtime.hybrid.in_step import InStep
from gnnplan.runtime.hybrid.model import HybridModel
from gnnplan.runtime.hybrid.trainer import HybridTrainer
from gnnplan.runtime.measured import UNTIMED_EPOCHS

PLANNED = {"vertex_s": 1e-9, "edge_s": 1e-9}


def tensor_bytes(values):
    """Bytes of all tensors in nested objects, every one once."""
    seen, left = {}, [values]
    while left:
        value = left.pop()
        if isinstance(value, torch.Tensor):
            parts = (value.crow_indices(), value.col_indices(), value.values()) if value.is_sparse_csr else (value,)
            seen |= {part.data_ptr(): part.nbytes for part in parts}
        elif isinstance(value, dict):
            left += value.values()
        elif is_dataclass(value) and not isinstance(value, HaloExchanger):
            left += vars(value).values()
    return sum(seen.values())


def weathered(record, program, model, *, link_s, compute_s):
    """The epoch as if exchanges, or all computing, had taken this long."""
    slow = {f"{step.name}/exchange/forward" for step in program.steps if step.op in ("aggregate", "exchange")}
    record.spans = [
        (key, kind, 0.0, link_s if key in slow else compute_s if kind == "compute" else end_s - begin_s)
        for key, kind, begin_s, end_s in record.spans
    ]
    record.start_s, record.end_s = 0.0, record.end_s - record.start_s
    for block in model.blocks.values():
        for name, arrived_s in block.exchanger.arrived_s.items():
            block.exchanger.arrived_s[name] = np.where(arrived_s > 0, link_s, 0.0)
    return record


class InWeather(InStep):
    """Sees every epoch as if it had been in slow links or slow computing, three epochs each.

    Where `tells`, they are also taken to be far longer or shorter when that changes.
    """

    def __init__(self, adjusting, program, model, *, tells):
        super().__init__(adjusting, 0.0)
        self._program, self._model, self._tells, self._num_epochs = program, model, tells, 0

    def _has_moved(self):
        self._num_epochs += 1
        return self._tells and self._num_epochs % 3 == 1

    def after(self, record):
        link_s, compute_s = ((1e3, 1e-9), (1e-9, 1e6), (1e3, 1e-9))[(record.epoch - UNTIMED_EPOCHS) // 3]
        return super().after(weathered(record, self._program, self._model, link_s=link_s, compute_s=compute_s))


def train(case, rank):
    """All epochs of one case."""
    job = Job.load(case / "job.json")
    decision = FullBatchDecision.model_validate_json((case / "decision.json").read_text())
    shard, staged = Shard.load(case / f"worker_{rank}.npz"), Staged.load(case / f"staged_{rank}.npz")
    program = build_program(
        job.model,
        decision.layers,
        num_features=shard.x.shape[1],
        num_classes=shard.num_classes,
        sparse_input=decision.sparse_features,
    )
    moves = dict(np.load(case / f"moves_{rank}.npz")) if (case / f"moves_{rank}.npz").exists() else {}
    is_online, counts_buffers = "online" in case.name, "pooled" in case.name
    if counts_buffers:
        gc.collect()
    model = HybridModel(job, program, shard, torch.device("cpu"), staged, adjusts=is_online or bool(moves))
    in_step = None
    if is_online:
        levels = levels_of(job.model, decision.layers, shard.x.shape[1], shard.num_classes)
        rates = Rates(**PLANNED, row_s=(1.0,) * shard.num_workers)
        in_step = InWeather(Adjusting(model, staged, levels, rates), program, model, tells="moved" in case.name)
    trainer = HybridTrainer(model, shard, in_step)
    pool.release()
    found = {"loss": [], "sent": [], "grad": [], "keys": [], "num_cached": [], "saved_s": [], "bound_s": []}
    for epoch in range(job.training.epochs):
        record = trainer.train_epoch(epoch, traced=True)
        found["loss"].append(record.loss)
        found["sent"].append(record.sent_bytes)
        found["grad"].append(torch.cat([p.grad.reshape(-1) for p in trainer.parameters]).numpy().copy())
        found["keys"].append(" ".join(span[0] for span in record.spans))
        if str(epoch) in moves:
            trainer.model.apply(moves[str(epoch)])
        for name in ("num_cached", "saved_s", "bound_s"):
            if record.adjusted:
                found[name].append(record.adjusted[name])
    logits, vertices = trainer.logits().numpy().copy(), trainer.model.vertices.numpy().copy()
    held_bytes = tensor_bytes({"blocks": trainer.model.blocks, "inputs": trainer.model.inputs})
    if counts_buffers:
        del trainer
        dist.barrier()  # gloo's thread may hold the last reduction's tensor a moment longer than who waited for it
        gc.collect()
    np.savez(
        case / f"result_{rank}.npz",
        logits=logits,
        vertices=vertices,
        pool_bytes=pool.held_bytes(),
        tensor_bytes=held_bytes,
        **found,
    )


def main():
    """Trains the cases in the order of their names."""
    folder, rank = Path(sys.argv[1]), int(os.environ["RANK"])
    with reporting_errors(folder, rank):
        torch.set_num_threads(1)
        dist.init_process_group("gloo", timeout=timedelta(seconds=60))
        for case in sorted(path for path in folder.iterdir() if (path / "job.json").exists()):
            train(case, rank)
        dist.destroy_process_group()


if __name__ == "__main__":
    main()
