"""Peak bytes of a worker that makes some rows of its halo itself."""

from __future__ import annotations

from dataclasses import dataclass, replace

from gnnplan.planner.costs import FLOAT_BYTES
from gnnplan.planner.hybrid.buffers import hybrid_buffers
from gnnplan.planner.hybrid.sizes import LevelSize, Replicas
from gnnplan.planner.memory import MemoryEstimate, estimate_memory
from gnnplan.planner.shapes import WorkerShape
from gnnplan.planner.steps import Program
from gnnplan.profiles.machine import MachineProfile

_INDEX_BYTES, _LONG_BYTES = 4, 8
_ENTRY_BYTES = FLOAT_BYTES + _INDEX_BYTES
_DEPENDENCY_BYTES = 300  # charges and two rankings of one dependency
_PLACE_BYTES = 64  # what is known of one vertex of the neighbourhood


@dataclass(frozen=True)
class Staging:
    """What one worker is given beside its share, to make rows from.

    Args:
        num_places: vertices of its neighbourhood that are staged, the halo always.
        num_entries: of their rows of the aggregation matrix.
        input_entries: stored entries of their input rows, over all precomputed hops (rows x F where dense).
        num_dependencies: that may be cached while it runs; 0: what is cached never changes.
    """

    num_places: int
    num_entries: int
    input_entries: int
    num_dependencies: int

    def num_bytes(self, *, sparse: bool) -> int:
        """Bytes of the arrays."""
        inputs = self.input_entries * (_ENTRY_BYTES if sparse else FLOAT_BYTES)
        places = self.num_places * (_PLACE_BYTES + _LONG_BYTES)
        return self.num_entries * _ENTRY_BYTES + inputs + places + self.num_dependencies * _DEPENDENCY_BYTES


def estimate_hybrid_memory(
    program: Program,
    shape: WorkerShape,
    profile: MachineProfile,
    replicas: Replicas,
    staging: Staging,
    rank: int,
    *,
    num_features: int,
    num_classes: int,
    has_optimizer_state: bool,
) -> MemoryEstimate:
    """Peak memory of the worker `rank`; `shape` is its own share's.

    Where it may decide again it keeps what it was given, and between two splits it holds a level's matrices twice, on
    a CPU beside an epoch's buffers, which are reserved. What is staged counts as memory of the worker, as on a CPU,
    where the host's is the device's.
    """
    plain = estimate_memory(
        program,
        shape,
        profile,
        num_features=num_features,
        num_classes=num_classes,
        num_workers=len(replicas.workers),
        has_optimizer_state=has_optimizer_state,
    )
    sparse = any(step.sparse for step in program.steps)
    staged_bytes = staging.num_bytes(sparse=sparse)
    kept_bytes = staged_bytes + shape.num_edges * _ENTRY_BYTES if staging.num_dependencies else 0
    input_bytes = plain.input_bytes + _replica_inputs(program, shape, replicas, rank, num_features, sparse)
    graph_bytes = _graph_bytes(program, shape, replicas, rank)
    on_cuda = profile.device_kind == "cuda"
    buffers = hybrid_buffers(program, shape, num_classes, replicas, rank, on_cuda=on_cuda)
    epoch_bytes = buffers.peak_bytes if on_cuda else buffers.held_bytes
    if staging.num_dependencies:
        again_bytes = max(_levels_bytes(program, shape, replicas, rank))
        epoch_bytes = max(epoch_bytes, graph_bytes) if on_cuda else epoch_bytes + again_bytes
    # What decides is compiled.
    base_bytes = profile.process_base_bytes + profile.compiled_kernel_bytes if staging.num_dependencies else 0
    return replace(
        plain,
        base_bytes=max(plain.base_bytes, base_bytes),
        graph_bytes=graph_bytes + kept_bytes,
        input_bytes=input_bytes,
        epoch_bytes=epoch_bytes,
        setup_bytes=plain.setup_bytes + staged_bytes + graph_bytes + input_bytes,
    )


def _replica_inputs(
    program: Program, shape: WorkerShape, replicas: Replicas, rank: int, num_features: int, sparse: bool
) -> int:
    """Input rows of the replicas at the lowest level, every precomputed hop, dense or CSR with transpose."""
    num_rows = replicas.num_replicas(rank, replicas.first)
    hops = [int(name[1:] or 0) for name in program.precomputed or ("x",)]
    if not sparse:
        return len(hops) * num_rows * num_features * FLOAT_BYTES
    entries = replicas.workers[rank].input_entries
    return sum(2 * (entries[hop] - shape.hop_entries[hop]) * _ENTRY_BYTES + num_rows * _INDEX_BYTES for hop in hops)


def _graph_bytes(program: Program, shape: WorkerShape, replicas: Replicas, rank: int) -> int:
    """Matrices and transposes of every level, own rows over own rows once; or every level's edges of an attention."""
    own = 0 if _attends(program) else 2 * shape.local_edges * _ENTRY_BYTES + 2 * shape.num_local * _INDEX_BYTES
    return own + sum(_levels_bytes(program, shape, replicas, rank))


def _levels_bytes(program: Program, shape: WorkerShape, replicas: Replicas, rank: int) -> list[int]:
    levels = replicas.workers[rank].levels
    above = [*(level.num_replicas for level in levels[1:]), 0]
    return [_level_bytes(shape, level, made, attends=_attends(program)) for level, made in zip(levels, above)]


def _attends(program: Program) -> bool:
    return any(step.op == "attend" for step in program.steps)


def _level_bytes(shape: WorkerShape, level: LevelSize, num_made: int, *, attends: bool) -> int:
    num_edges = level.near_edges + level.made_edges + level.far_edges
    num_rows = 2 * shape.num_local + 2 * level.num_replicas + 2 * num_made + level.num_fetched
    if attends:
        return (num_edges + shape.local_edges) * 3 * _LONG_BYTES + 2 * num_rows * _LONG_BYTES
    return 2 * num_edges * _ENTRY_BYTES + 2 * num_rows * (_INDEX_BYTES + _ENTRY_BYTES)
