"""One worker of a mini-batch job: measures its stages, then plans and trains epoch after epoch."""

from __future__ import annotations

import math
import os
from collections.abc import Iterator
from contextlib import nullcontext
from functools import partial
from pathlib import Path

import numpy as np
import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel
from torch_geometric.nn.models.basic_gnn import BasicGNN

from gnnplan.planner.job import Job
from gnnplan.planner.minibatch.record import RUN_FILE, MiniBatchEpoch, MiniBatchRun
from gnnplan.planner.minibatch.room import MAX_SLOTS
from gnnplan.profiles.contract import replacing
from gnnplan.profiles.errors import RunFailedError, UserError
from gnnplan.profiles.kernels.counter import chained_key
from gnnplan.profiles.launch import emit
from gnnplan.profiles.roll_call import naming_lost_workers
from gnnplan.profiles.torchrun import first_rank_of_host, local_device, process_group
from gnnplan.runtime.metrics import hits
from gnnplan.runtime.mini_batch.device_memory import CudaMemory, fill_device
from gnnplan.runtime.mini_batch.distributed import emptying_frames, in_step, joined, num_batches_of, split
from gnnplan.runtime.mini_batch.host_graph import HostGraph, load_host_graph
from gnnplan.runtime.mini_batch.loader_stages import LoaderStages
from gnnplan.runtime.mini_batch.profile import StageProfile, profile_stages
from gnnplan.runtime.mini_batch.train import Trained, train
from gnnplan.runtime.reference import build_optimizer, build_pyg_model, loss_of
from gnnplan.runtime.sampling.loader import NeighborLoader
from gnnplan.runtime.shared_memory import group_of_host

_PROFILED_BATCHES = 12
_LOADING_S = 3600.0  # longest wait for the host's first worker to load the graph: disks take their time
_DROPOUT = 0x64726F706F7574  # sets these keys apart from those of the loader's orders


def run_worker(job_path: Path, folder: Path, *, timeout_s: float) -> None:
    """Trains this process's batches of a job; torchrun's environment says which.

    Rank 0 writes `folder/mini_batch.json` and `folder/model.pt`.
    """
    job, device = Job.load(job_path), local_device()
    rank, size = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
    with process_group(device, timeout_s), emptying_frames(), naming_lost_workers():
        # Without a name, so that it ends here: DDP's reducer outliving the group may wait for ever.
        _Worker(job, device, rank, size, timeout_s).run(folder)


class _Worker:
    """Everything one process holds: half of a CPU worker's cores make batches, the others train."""

    def __init__(self, job: Job, device: torch.device, rank: int, size: int, timeout_s: float) -> None:
        assert job.mini_batch is not None
        self.job, self.device, self.rank, self.size = job, device, rank, size
        # A stage that waits for another worker outlasts the collective it waits in, whose error says so.
        self.stage_timeout_s = timeout_s if size == 1 else 2 * timeout_s
        num_threads = int(os.environ.get("OMP_NUM_THREADS", "1"))
        self.num_cpu_threads = max(1, num_threads - 1 if device.type == "cuda" else num_threads // 2)
        torch.set_num_threads(max(1, num_threads - self.num_cpu_threads))
        self.graph = _graph(job, rank, timeout_s)
        self.loader = self._loader()
        if len(self.loader) < size:
            raise UserError(f"{size} workers for {len(self.loader)} batches; take fewer workers or smaller batches")
        self.net = build_pyg_model(job.model, self.graph.x.shape[1], self.graph.num_classes, job.training.seed)
        self.net.dropout.p = job.model.dropout
        self.stages = self._stages(self.net.to(device))
        self.gpu_slots, self.kept_bytes = MAX_SLOTS, 0
        if device.type == "cuda":
            limit_bytes = job.mini_batch.device_bytes
            self.gpu_slots, self.kept_bytes = fill_device(self.stages, CudaMemory(device), limit_bytes=limit_bytes)

    def run(self, folder: Path) -> None:
        """Profiles, trains, evaluates and writes."""
        self.net.train()
        with self.stages.undone():
            profile = self._profile()
        # Dropout draws from torch's own stream, which profiling has moved; every worker drops others.
        torch.manual_seed(chained_key(_DROPOUT, self.job.training.seed, self.rank) >> 1)
        epochs = [self._record(number, trained) for number, trained in enumerate(self._epochs(profile))]
        if self.rank != 0:
            return
        self._save_model(folder / "model.pt")
        record = MiniBatchRun(
            schema_version=1,
            job=self.job,
            num_workers=self.size,
            device="cuda" if self.device.type == "cuda" else "cpu",
            num_cpu_threads=self.num_cpu_threads,
            times=profile.times,
            variation=profile.variation,
            cached_bytes=self.kept_bytes,
            epochs=tuple(epochs),
            accuracy=self._evaluate(),
        )
        record.save(folder / RUN_FILE)

    def _save_model(self, path: Path) -> None:
        """Before it is evaluated, which may take more memory than training did."""
        with replacing(path) as temporary:
            torch.save({name: value.cpu() for name, value in self.net.state_dict().items()}, temporary)

    def _loader(self) -> NeighborLoader:
        spec = self.job.mini_batch
        assert spec is not None
        return NeighborLoader(
            self.graph.data,
            spec.fan_outs,
            torch.from_numpy(self.graph.train_mask),
            batch_size=spec.batch_size,
            shuffle=True,
            num_workers=self.num_cpu_threads,
            seed=self.job.training.seed,
            pin_memory=self.device.type == "cuda",
            timeout=self.stage_timeout_s,
            csc=self.graph.csc,
        )

    def _stages(self, net: BasicGNN) -> LoaderStages:
        optimizer = build_optimizer(net.parameters(), self.job.training)
        model = in_step(net) if self.size > 1 else net
        loss = partial(loss_of, mask=slice(None))
        return LoaderStages(self.loader, model, optimizer, loss=loss, device=self.device)

    def _profile(self) -> StageProfile:
        return profile_stages(
            self.stages,
            _PROFILED_BATCHES,
            num_distinct=len(self.loader),
            num_cpu_threads=self.num_cpu_threads,
            gpu_slots=self.gpu_slots,
            is_resident=self.stages.is_resident,
            timeout_s=self.stage_timeout_s,
        )

    def _epochs(self, profile: StageProfile) -> Iterator[Trained]:
        """Every epoch, whoever has fewer batches keeping step with the others."""
        mine = num_batches_of(self.rank, self.size, len(self.loader))
        stages = split(self.stages, self.rank, self.size)
        epochs = train(
            stages,
            profile.times,
            mine,
            self.job.training.epochs,
            gpu_slots=self.gpu_slots,
            num_cpu_threads=self.num_cpu_threads,
            timeout_s=self.stage_timeout_s,
        )
        model = self.stages.model
        for _ in range(self.job.training.epochs):
            with joined(model, self.stages.optimizer) if isinstance(model, DistributedDataParallel) else nullcontext():
                trained = next(epochs)
            yield trained

    def _record(self, number: int, trained: Trained) -> MiniBatchEpoch:
        plan, epoch = trained.plan, trained.epoch
        loss = float(np.mean(epoch.losses))
        if not math.isfinite(loss):
            raise RunFailedError(f"the loss of epoch {number} is {loss}: training diverges; lower learning_rate")
        record = MiniBatchEpoch(
            route=plan.route,
            cpu_slots=plan.buffers.cpu_slots if plan.buffers else 0,
            gpu_slots=plan.buffers.gpu_slots if plan.buffers else 0,
            num_batches=plan.num_batches,
            num_gpu_made=len(epoch.made_by_gpu),
            predicted_s=plan.epoch_s,
            measured_s=max(span.end_s for span in epoch.spans),
            gap=plan.gap,
            loss=loss,
        )
        if self.rank == 0:
            emit({"event": "epoch", "epoch": number, "epochs": self.job.training.epochs, "loss": loss})
        return record

    @torch.no_grad()
    def _evaluate(self) -> dict[str, float]:
        self.net.eval()
        masks = {"train": self.graph.train_mask, "val": self.graph.val_mask, "test": self.graph.test_mask}
        return {name: self._score(mask) for name, mask in masks.items() if mask.any()}

    def _score(self, mask: np.ndarray) -> float:
        """Share right over the vertices of a mask, or micro-F1 where labels are [N, C]."""
        counted = torch.zeros(2, dtype=torch.float64)
        for batch in self.loader.with_seeds(torch.from_numpy(mask)):
            moved = batch.to(self.device)
            logits = self.net(moved.x, moved.edge_index)[: batch.batch_size]
            counted += hits(logits, moved.y[: batch.batch_size]).cpu()
        right, total = counted.tolist()
        return right / total if total else 0.0


def _graph(job: Job, rank: int, timeout_s: float) -> HostGraph:
    """What all workers of this one's host share."""
    if not dist.is_initialized():
        return load_host_graph(job.graph)
    first = first_rank_of_host()
    group = group_of_host(first, rank, max(timeout_s, _LOADING_S))
    ranks = [other for other, its in enumerate(first) if its == first[rank]]
    return load_host_graph(job.graph, ranks, rank, group)
