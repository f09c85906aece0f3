"""The `Plan` contract: every decision of a run, the prediction it was chosen by, and what it was made for."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, field
from pathlib import Path
from typing import ClassVar, Literal, Self

import numpy as np
from pydantic import Field, NonNegativeInt, PositiveInt, model_validator

from planner.cluster import Placement
from planner.graph import Graph
from planner.halo import nothing_pruned
from planner.job import Balance, Job, Partitioner, Prune
from planner.joint_cache.decision import NO_CACHE, CacheDecision
from planner.loaders.read import reading
from planner.partial.decision import PartialReduceDecision
from planner.partial.rule import majority
from planner.program import LayerDecision, Program, build_program, num_hops
from planner.shapes import WorkerShape
from planner.weather.model import WeatherFigures
from profiles.contract import Contract, Document, replacing
from profiles.errors import UserError


class GraphFacts(Contract):
    """What of the graph the plan depends on, for the report and for recognising it again."""

    name: str
    fingerprint: str
    num_nodes: PositiveInt
    num_edges: int = Field(ge=0)
    num_features: PositiveInt
    num_classes: PositiveInt

    @classmethod
    def of(cls, graph: Graph) -> GraphFacts:
        """The facts of a loaded graph."""
        return cls(
            name=graph.name,
            fingerprint=graph.fingerprint,
            num_nodes=graph.num_nodes,
            num_edges=graph.num_edges,
            num_features=graph.num_features,
            num_classes=graph.num_classes,
        )


class FullBatchDecision(Contract):
    """Full-batch data-parallel training with halo exchange.

    Args:
        layers: one per layer.
        sparse_features: input features are held and moved as CSR.
        target_weights: share of the graph each worker was given.
        balance: what the shares follow.
        prune: by what halo vertices were left out.
        cache: halo rows kept between epochs.
        partial: how workers go on without those that lag behind (None: they never do).
    """

    strategy: Literal["halo_exchange"] = "halo_exchange"
    partitioner: Partitioner
    target_weights: tuple[float, ...] = Field(min_length=1)
    balance: Balance = "speed"
    prune: Prune = "none"
    layers: tuple[LayerDecision, ...] = Field(min_length=1)
    sparse_features: bool = False
    cache: CacheDecision = NO_CACHE
    partial: PartialReduceDecision | None = None

    @property
    def is_partial(self) -> bool:
        """Whether workers may go on without those that lag behind."""
        return self.partial is not None and self.partial.is_stale

    @property
    def is_stale(self) -> bool:
        """Whether embeddings or gradients may be older than the epoch."""
        return self.cache.is_stale or self.is_partial

    @property
    def fidelity(self) -> str:
        """`exact`, or `stale(r)` where embeddings are up to r - 1 epochs old."""
        if self.partial is not None and self.partial.is_stale:
            return f"stale({self.partial.max_staleness + 1})"
        return f"stale({self.cache.refresh_interval})" if self.cache.is_stale else "exact"


class WorkerLoad(Contract):
    """Peak memory of one worker beside what it has, and what it sends in one epoch.

    `reuse_sent_bytes` is sent in an epoch that reuses halo embeddings (0 where there are none), `sent_bytes` in
    every other.
    """

    peak_bytes: int = Field(ge=0)
    capacity_bytes: int = Field(ge=0)
    sent_bytes: int = Field(ge=0)
    reuse_sent_bytes: int = Field(default=0, ge=0)


class PrunedHalo(Contract):
    """What one worker does without: halo vertices, and the aggregation's entries that gathered them."""

    num_vertices: NonNegativeInt
    num_edges: NonNegativeInt


class Prediction(Contract):
    """What the simulator says of the plan.

    Args:
        epoch_s: simulated makespan of one epoch (mean over a refresh interval).
        compute_s, communicate_s, host_s: mean seconds a worker spends on each; waiting for a
            peer counts as communication.
        bound_s: no schedule of this decision is faster; `bound_resource` sets it.
        unprofiled: task keys whose shapes lie outside the profile.
        weather: epochs under the job's weather (None: it names none).
    """

    epoch_s: float = Field(gt=0)
    compute_s: float = Field(ge=0)
    communicate_s: float = Field(ge=0)
    host_s: float = Field(ge=0)
    bound_s: float = Field(ge=0)
    bound_resource: str
    workers: tuple[WorkerLoad, ...] = Field(min_length=1)
    unprofiled: tuple[str, ...] = ()
    weather: WeatherFigures | None = None

    @property
    def gap(self) -> float:
        """How far the plan is from its bound: simulated / bound - 1."""
        return self.epoch_s / self.bound_s - 1 if self.bound_s else 0.0


class Candidate(Contract):
    """A decision that was considered, in one line, with its predicted epoch."""

    summary: str
    epoch_s: float
    fits: bool = True


class Plan(Document):
    """A plan is complete: with the graph and the devices at hand it runs as it is.

    Args:
        shapes: of each worker's share, so that the plan can be simulated without its graph.
        send_counts: `send_counts[p][q]` rows go from worker p to q in one exchange.
        pruned: of each worker; empty where nothing is.
        partition_file: `.npz` beside the plan, with the arrays of `Partition`.
        partition_sha256: of their bytes.
        considered: the best of the alternatives, fastest first.
    """

    KIND: ClassVar[str] = "plan"

    job: Job
    placement: Placement
    graph: GraphFacts
    decision: FullBatchDecision
    shapes: tuple[WorkerShape, ...] = Field(min_length=1)
    send_counts: tuple[tuple[NonNegativeInt, ...], ...] = Field(min_length=1)
    pruned: tuple[PrunedHalo, ...] = ()
    prediction: Prediction
    partition_file: str
    partition_sha256: str
    considered: tuple[Candidate, ...] = ()

    @property
    def num_workers(self) -> int:
        """Workers the plan runs on."""
        return len(self.placement.workers)

    @property
    def drops_edges(self) -> bool:
        """Whether halo vertices with aggregation edges were pruned."""
        return any(halo.num_edges for halo in self.pruned)

    @property
    def fidelity(self) -> str:
        """`exact`, `approximate` where aggregation edges are dropped, `stale(r)`, or both of these."""
        stale = (self.decision.fidelity,) if self.decision.is_stale else ()
        return ", ".join((("approximate",) if self.drops_edges else ()) + stale) or "exact"

    def program(self) -> Program:
        """The operators of one epoch."""
        return build_program(
            self.job.model,
            self.decision.layers,
            num_features=self.graph.num_features,
            num_classes=self.graph.num_classes,
            sparse_input=self.decision.sparse_features,
        )

    @model_validator(mode="after")
    def _is_consistent(self) -> Self:
        size = self.num_workers
        counts = [len(self.shapes), len(self.send_counts), len(self.prediction.workers)]
        if any(count != size for count in counts) or any(len(row) != size for row in self.send_counts):
            raise ValueError(f"shapes, send_counts and prediction.workers must each have {size} workers")
        if len(self.pruned) not in (0, size):
            raise ValueError(f"pruned must have {size} workers, or none where nothing is pruned")
        if self.drops_edges and (self.job.fidelity == "exact" or self.decision.prune == "none"):
            raise ValueError("pruned: edges are dropped, which neither the job's fidelity nor decision.prune allows")
        if len(self.decision.layers) != self.job.model.num_layers:
            raise ValueError(f"decision.layers must have {self.job.model.num_layers} layers")
        first = self.decision.layers[0]
        if self.decision.sparse_features and first.op_order == "aggregate_first" and not first.precompute:
            raise ValueError("decision.layers.0: sparse features are aggregated once (precompute) or multiplied first")
        if any(len(shape.hop_entries) != num_hops(self.job.model) + 1 for shape in self.shapes):
            raise ValueError(f"shapes: hop_entries must have {num_hops(self.job.model) + 1} values")
        self._check_cache()
        self._check_partial()
        missing = {worker.profile for worker in self.placement.workers} - set(self.placement.profiles)
        if missing:
            raise ValueError(f"placement.profiles lacks {', '.join(sorted(missing))}")
        return self

    def _check_cache(self) -> None:
        cache, size = self.decision.cache, self.num_workers
        if not cache.num_rows and not cache.fresh_counts:
            return
        if len(cache.num_rows) != size or [len(row) for row in cache.fresh_counts] != [size] * size:
            raise ValueError(f"decision.cache: num_rows and fresh_counts must each have {size} workers")
        kept = np.array(self.send_counts) - np.array(cache.fresh_counts)
        if (kept < 0).any() or tuple(kept.sum(0).tolist()) != cache.num_rows:
            raise ValueError("decision.cache: send_counts less fresh_counts must be the num_rows each worker keeps")

    def _check_partial(self) -> None:
        partial, size = self.decision.partial, self.num_workers
        if partial is None:
            return
        if self.job.pin.partial_reduce is None or any(self.decision.cache.num_rows):
            raise ValueError("decision.partial: the job does not pin partial_reduce, or halo rows are kept beside it")
        if [len(row) for row in partial.contributing] != [size] * self.job.model.num_layers:
            raise ValueError(f"decision.partial: contributing must have a row a layer, of {size} workers")
        if not majority(size) <= partial.min_group <= size:
            raise ValueError(f"decision.partial: min_group must be {majority(size)} to {size}, a majority")

    def check_graph(self, graph: Graph) -> None:
        """`UserError` where the plan was made for another graph."""
        if graph.fingerprint != self.graph.fingerprint:
            raise UserError(
                f"the plan was made for graph {self.graph.name} ({self.graph.fingerprint}), "
                f"{graph.name} is {graph.fingerprint}; make a new plan for it"
            )


@dataclass(frozen=True)
class Partition:
    """Who owns every vertex, and which halo vertices the workers do without.

    Args:
        part: int32 [N].
        pruned: int32 [2, P], (worker, vertex).
    """

    part: np.ndarray
    pruned: np.ndarray = field(default_factory=nothing_pruned)

    def digest(self) -> str:
        """SHA-256 of the bytes of both as int32."""
        digest = hashlib.sha256()
        for array in (self.part, self.pruned):
            digest.update(np.ascontiguousarray(array, dtype=np.int32).tobytes())
        return digest.hexdigest()


def save_plan(plan: Plan, partition: Partition, path: Path) -> Path:
    """Writes the partition beside the plan, then the plan; a plan on disk is never half there."""
    arrays = {"part": partition.part.astype(np.int32)}
    if partition.pruned.size:
        arrays["pruned"] = partition.pruned.astype(np.int32)
    with replacing(path.parent / plan.partition_file) as temporary:
        np.savez_compressed(temporary, **arrays)  # type: ignore[arg-type]
    return plan.save(path)


def load_partition(plan: Plan, plan_path: Path) -> Partition:
    """The partition of a plan; `UserError` where it is missing, damaged or another plan's."""
    path = plan_path.parent / plan.partition_file
    if not path.exists():
        raise UserError(f"{path}: the plan's partition is missing; keep it beside the plan")
    with reading(path, "a partition file"), np.load(path, allow_pickle=False) as file:
        found = Partition(file["part"], file["pruned"] if "pruned" in file else nothing_pruned())
    has_shape = found.part.shape == (plan.graph.num_nodes,) and found.pruned.shape[:-1] == (2,)
    if not has_shape or found.digest() != plan.partition_sha256:
        raise UserError(f"{path}: not the partition this plan was made with; make the plan again")
    return found
