"""One worker of a mini-batch job: measures its stages, then plans and trains epoch after epoch."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import nullcontext
from datetime import timedelta
from functools import partial
from pathlib import Path

import numpy as np
import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel
from torch_geometric.data import Data
from torch_geometric.nn.models.basic_gnn import BasicGNN

from planner.graph import Graph
from planner.job import Job
from planner.loaders import load_graph
from planner.minibatch.cache import plan_cache
from planner.minibatch.record import RUN_FILE, MiniBatchEpoch, MiniBatchRun
from profiles.contract import replacing
from profiles.errors import UserError
from profiles.launch import emit
from runtime.metrics import hits
from runtime.mini_batch.distributed import in_step, joined, num_batches_of, split
from runtime.mini_batch.loader_stages import LoaderStages
from runtime.mini_batch.profile import StageProfile, profile_stages
from runtime.mini_batch.train import Trained, train
from runtime.reference import build_optimizer, build_pyg_model, graph_tensors, loss_of
from runtime.sampling.loader import NeighborLoader
from runtime.sampling.presample import presample
from runtime.sampling.source import Source

_PROFILED_BATCHES = 12
_PRESAMPLED_BATCHES = 20
_CACHE_SHARE = 0.5  # of the device memory that is free before training


def run_worker(job_path: Path, folder: Path, *, timeout_s: float) -> None:
    """Trains this process's batches of a job; torchrun's environment says which.

    Rank 0 writes `folder/mini_batch.json` and `folder/model.pt`.
    """
    job = Job.load(job_path)
    size, device = int(os.environ["WORLD_SIZE"]), _pick_device()
    if size > 1:
        backend = "nccl" if device.type == "cuda" else "gloo"
        dist.init_process_group(backend, timeout=timedelta(seconds=timeout_s))
    try:
        _Worker(job, device, int(os.environ["RANK"]), size, timeout_s).run(folder)
    finally:
        if dist.is_initialized():
            dist.destroy_process_group()


def _pick_device() -> torch.device:
    if torch.cuda.is_available():
        device = torch.device("cuda", int(os.environ["LOCAL_RANK"]))
        torch.cuda.set_device(device)
        return device
    return torch.device("cpu")


class _Worker:
    """Everything one process holds: half of a CPU worker's cores make batches, the others train."""

    def __init__(self, job: Job, device: torch.device, rank: int, size: int, timeout_s: float) -> None:
        assert job.mini_batch is not None
        self.job, self.device, self.rank, self.size, self.timeout_s = job, device, rank, size, timeout_s
        num_threads = int(os.environ.get("OMP_NUM_THREADS", "1"))
        self.num_cpu_threads = max(1, num_threads - 1 if device.type == "cuda" else num_threads // 2)
        torch.set_num_threads(max(1, num_threads - self.num_cpu_threads))
        self.graph = load_graph(job.graph)
        self.data = _data(self.graph)
        self.loader = self._loader(self.graph.train_mask, shuffle=True)
        if len(self.loader) < size:
            raise UserError(f"{size} workers for {len(self.loader)} batches; take fewer workers or smaller batches")
        self.cached_bytes = 0
        self.net = build_pyg_model(job.model, self.graph.num_features, self.graph.num_classes, job.training.seed)
        self.net.dropout.p = job.model.dropout
        self.stages = self._stages(self.net.to(device))

    def run(self, folder: Path) -> None:
        """Profiles, trains, evaluates and writes."""
        self.net.train()
        with self.stages.undone():
            profile = self._profile()
        epochs = [self._record(number, trained) for number, trained in enumerate(self._epochs(profile))]
        if self.rank != 0:
            return
        record = MiniBatchRun(
            schema_version=1,
            job=self.job,
            num_workers=self.size,
            device="cuda" if self.device.type == "cuda" else "cpu",
            num_cpu_threads=self.num_cpu_threads,
            times=profile.times,
            variation=profile.variation,
            cached_bytes=self.cached_bytes,
            epochs=tuple(epochs),
            accuracy=self._evaluate(),
        )
        with replacing(folder / "model.pt") as temporary:
            torch.save(self.net.cpu().state_dict(), temporary)
        record.save(folder / RUN_FILE)

    def _loader(self, mask: np.ndarray, *, shuffle: bool) -> NeighborLoader:
        spec = self.job.mini_batch
        assert spec is not None
        return NeighborLoader(
            self.data,
            spec.fan_outs,
            torch.from_numpy(mask),
            batch_size=spec.batch_size,
            shuffle=shuffle,
            num_workers=self.num_cpu_threads,
            seed=self.job.training.seed,
            pin_memory=self.device.type == "cuda",
        )

    def _stages(self, net: BasicGNN) -> LoaderStages:
        optimizer = build_optimizer(net.parameters(), self.job.training)
        model = in_step(net) if self.size > 1 else net
        loss = partial(loss_of, mask=slice(None))
        assert self.job.mini_batch is not None
        draws = min(self.job.mini_batch.fan_outs) > 0  # the GPU's kernels do not take all neighbours
        source = self._gpu_source() if self.device.type == "cuda" and draws else None
        return LoaderStages(self.loader, model, optimizer, loss=loss, device=self.device, gpu_source=source)

    def _gpu_source(self) -> Source:
        from runtime.sampling.device import DeviceSource  # needs Triton

        row_bytes = self.data.x[0].numel() * self.data.x.element_size()
        cache = plan_cache(
            presample(self.loader, _PRESAMPLED_BATCHES),
            np.diff(self.loader.graph.indptr),
            index_bytes=self.loader.graph.indices.itemsize,
            row_bytes=row_bytes,
            budget_bytes=int(_CACHE_SHARE * torch.cuda.mem_get_info(self.device)[0]),
        )
        self.cached_bytes = cache.adjacency_bytes + cache.feature_bytes
        return DeviceSource(self.loader.graph, self.device, cache=cache, cached=self.data.x)

    def _profile(self) -> StageProfile:
        return profile_stages(
            self.stages,
            _PROFILED_BATCHES,
            num_distinct=len(self.loader),
            num_cpu_threads=self.num_cpu_threads,
            timeout_s=self.timeout_s,
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
            num_cpu_threads=self.num_cpu_threads,
            timeout_s=self.timeout_s,
        )
        model = self.stages.model
        for _ in range(self.job.training.epochs):
            with joined(model, self.stages.optimizer) if isinstance(model, DistributedDataParallel) else nullcontext():
                trained = next(epochs)
            yield trained

    def _record(self, number: int, trained: Trained) -> MiniBatchEpoch:
        plan, epoch = trained.plan, trained.epoch
        record = MiniBatchEpoch(
            route=plan.route,
            cpu_slots=plan.buffers.cpu_slots if plan.buffers else 0,
            gpu_slots=plan.buffers.gpu_slots if plan.buffers else 0,
            num_batches=plan.num_batches,
            num_gpu_made=len(epoch.made_by_gpu),
            predicted_s=plan.epoch_s,
            measured_s=max(span.end_s for span in epoch.spans),
            gap=plan.gap,
            loss=float(np.mean(epoch.losses)),
        )
        if self.rank == 0:
            emit({"event": "epoch", "epoch": number, "epochs": self.job.training.epochs, "loss": record.loss})
        return record

    @torch.no_grad()
    def _evaluate(self) -> dict[str, float]:
        self.net.eval()
        masks = {"train": self.graph.train_mask, "val": self.graph.val_mask, "test": self.graph.test_mask}
        return {name: self._score(mask) for name, mask in masks.items() if mask.any()}

    def _score(self, mask: np.ndarray) -> float:
        """Share right over the vertices of a mask, or micro-F1 where labels are [N, C]."""
        counted = torch.zeros(2, dtype=torch.float64)
        for batch in self._loader(mask, shuffle=False):
            moved = batch.to(self.device)
            logits = self.net(moved.x, moved.edge_index)[: batch.batch_size]
            counted += hits(logits, moved.y[: batch.batch_size]).cpu()
        right, total = counted.tolist()
        return right / total if total else 0.0


def _data(graph: Graph) -> Data:
    x, edge_index, y = graph_tensors(graph)
    return Data(x=x, edge_index=edge_index, y=y)
