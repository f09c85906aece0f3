"""Peak bytes of one worker, before anything runs."""

from __future__ import annotations

from dataclasses import dataclass

from gnnplan.planner.buffers import epoch_buffers, filling_buffers
from gnnplan.planner.costs import FLOAT_BYTES
from gnnplan.planner.joint_cache.decision import NO_CACHE, CacheDecision
from gnnplan.planner.shapes import WorkerShape
from gnnplan.planner.steps import Program
from gnnplan.profiles.machine import MachineProfile

_INDEX_BYTES = 4  # torch CSR tensors and shards hold int32 column indices
_LONG_BYTES = 8


@dataclass(frozen=True)
class MemoryEstimate:
    """Peak bytes of a worker and what they are made of.

    Args:
        base_bytes: the process itself, with compiled kernels where it uses any.
        graph_bytes: the aggregation matrix and its transpose.
        input_bytes: features, dense or CSR with transpose.
        parameter_bytes: weights and optimizer state.
        epoch_bytes: activations, gradients, receive and reduce buffers, kept halo rows: `gnnplan.planner.buffers`.
        setup_bytes: peak while loading, precomputing and filling caches, which may exceed training.
    """

    base_bytes: int
    graph_bytes: int
    input_bytes: int
    parameter_bytes: int
    epoch_bytes: int
    setup_bytes: int

    @property
    def peak_bytes(self) -> int:
        """The larger of the setup's and the training's peak."""
        held = self.graph_bytes + self.input_bytes + self.parameter_bytes
        return self.base_bytes + max(held + self.epoch_bytes, self.setup_bytes)


def estimate_memory(
    program: Program,
    shape: WorkerShape,
    profile: MachineProfile,
    *,
    num_features: int,
    num_classes: int,
    num_workers: int,
    has_optimizer_state: bool,
    cache: CacheDecision = NO_CACHE,
    rank: int = 0,
    overlap: bool = False,
) -> MemoryEstimate:
    """Peak memory of one worker on the device of `profile`; `rank` says which row of the cache is its own."""
    sparse = any(step.sparse for step in program.steps)
    graph_bytes = _graph_bytes(program, shape)
    features = _features_bytes(shape.hop_entries[0], shape.num_local, num_features, sparse)
    hops = program.precomputed or ("x",)
    input_bytes = sum(
        _features_bytes(shape.hop_entries[int(name[1:] or 0)], shape.num_local, num_features, sparse) for name in hops
    )
    copies = 3 if has_optimizer_state else 1  # weight; two moments
    labels = shape.num_local * (num_classes * FLOAT_BYTES + 2 * _LONG_BYTES + 3)
    on_cuda = profile.device_kind == "cuda"
    buffers = epoch_buffers(program, shape, num_classes, num_workers, cache, rank, overlap=overlap, on_cuda=on_cuda)
    epoch_bytes = buffers.peak_bytes if on_cuda else buffers.held_bytes
    filling = filling_buffers(program, shape, num_workers, cache, rank, overlap=overlap)
    filling_bytes = filling.peak_bytes if on_cuda else filling.held_bytes
    if filling_bytes:
        filling_bytes += program.num_parameters * FLOAT_BYTES  # by then there are weights
    return MemoryEstimate(
        base_bytes=profile.process_base_bytes + (profile.compiled_kernel_bytes if _compiles(program) else 0),
        graph_bytes=graph_bytes,
        input_bytes=input_bytes + labels,
        parameter_bytes=copies * program.num_parameters * FLOAT_BYTES,
        epoch_bytes=epoch_bytes,
        setup_bytes=graph_bytes
        + features
        + labels
        + (input_bytes + _halo_features(shape, num_features, sparse) if program.precomputed else 0)
        + filling_bytes,
    )


def _compiles(program: Program) -> bool:
    return any(step.op == "attend" or step.dropout for step in program.steps)


def _graph_bytes(program: Program, shape: WorkerShape) -> int:
    pointers = 2 * shape.num_local + 2 * shape.num_halo + 4
    if any(step.op == "attend" for step in program.steps):
        # EdgeBlock: source, target and by-source edge as int64, two row pointers; the shard's own CSR.
        return shape.num_edges * 3 * _LONG_BYTES + pointers * _LONG_BYTES
    return 2 * shape.num_edges * (FLOAT_BYTES + _INDEX_BYTES) + pointers * _INDEX_BYTES


def _features_bytes(entries: int, num_rows: int, width: int, sparse: bool) -> int:
    if not sparse:
        return num_rows * width * FLOAT_BYTES
    return 2 * entries * (FLOAT_BYTES + _INDEX_BYTES) + (num_rows + width + 2) * _INDEX_BYTES


def _halo_features(shape: WorkerShape, width: int, sparse: bool) -> int:
    entries_per_row = shape.hop_entries[0] / max(1, shape.num_local)
    row_bytes = entries_per_row * (FLOAT_BYTES + _LONG_BYTES) if sparse else width * FLOAT_BYTES
    return int((shape.num_halo + shape.num_sent) * row_bytes)
