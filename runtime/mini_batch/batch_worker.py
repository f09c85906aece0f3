"""What a worker of mini-batches holds: the graph of its host, a loader, the model, and the stages of a batch."""

from __future__ import annotations

import os
from datetime import timedelta
from functools import partial

import torch
import torch.distributed as dist
from torch_geometric.nn.models.basic_gnn import BasicGNN

from gnnplan.planner.job import Job
from gnnplan.planner.models.pyg_models import build_pyg_model
from gnnplan.profiles.errors import UserError
from gnnplan.profiles.torchrun import first_rank_of_host
from gnnplan.runtime.mini_batch.distributed import in_step, num_batches_of
from gnnplan.runtime.mini_batch.host_graph import HostGraph, load_host_graph
from gnnplan.runtime.mini_batch.loader_stages import LoaderStages
from gnnplan.runtime.reference import build_optimizer, loss_of
from gnnplan.runtime.sampling.loader import NeighborLoader
from gnnplan.runtime.shared_memory import group_of_host

_LOADING_S = 3600.0  # longest wait for the host's first worker to load the graph: disks take their time


class BatchWorker:
    """Everything one process holds.

    Args:
        num_loaders: threads that may make batches.
        num_ahead: batches that there may be at once.
        timeout_s: longest wait for another worker.
    """

    def __init__(
        self, job: Job, device: torch.device, rank: int, size: int, timeout_s: float, num_loaders: int, num_ahead: int
    ) -> None:
        assert job.mini_batch is not None
        self.job, self.device, self.rank, self.size = job, device, rank, size
        # A stage that waits for another worker outlasts the collective it waits in, whose error says so.
        self.stage_timeout_s = timeout_s if size == 1 else 2 * timeout_s
        self.graph = _graph(job, rank, timeout_s)
        self.loader = self._loader(num_loaders, num_ahead)
        if len(self.loader) < size:
            raise UserError(f"{size} workers for {len(self.loader)} batches; take fewer workers or smaller batches")
        self.net = build_pyg_model(job.model, self.graph.x.shape[1], self.graph.num_classes, job.training.seed)
        self.net.dropout.p = job.model.dropout
        self.stages = self._stages(self.net.to(device))
        self.net.train()

    @property
    def num_batches(self) -> int:
        """That this worker trains in an epoch."""
        return num_batches_of(self.rank, self.size, len(self.loader))

    def _loader(self, num_loaders: int, num_ahead: int) -> NeighborLoader:
        spec = self.job.mini_batch
        assert spec is not None
        return NeighborLoader(
            self.graph.data,
            spec.fan_outs,
            torch.from_numpy(self.graph.train_mask),
            batch_size=spec.batch_size,
            shuffle=True,
            num_workers=num_loaders,
            prefetch_factor=-(-num_ahead // num_loaders),
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


def num_threads() -> int:
    """Of the processor, that torchrun gives this worker."""
    return int(os.environ.get("OMP_NUM_THREADS", "1"))


def _graph(job: Job, rank: int, timeout_s: float) -> HostGraph:
    """What all workers of this one's host share."""
    if not dist.is_initialized():
        return load_host_graph(job.graph)
    # Hosts load at their own pace, and who waits for another one in a collective waits for the usual time.
    longest = timedelta(seconds=max(timeout_s, _LOADING_S))
    everyone = dist.new_group(timeout=longest, backend="gloo")
    first = first_rank_of_host()
    group = group_of_host(first, rank, max(timeout_s, _LOADING_S))
    ranks = [other for other, its in enumerate(first) if its == first[rank]]
    loaded = load_host_graph(job.graph, ranks, rank, group)
    dist.barrier(everyone)
    return loaded
