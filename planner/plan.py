"""The `Plan` contract: every decision of a run, the prediction it was chosen by, and what it was made for."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import ClassVar, Literal, Self

import numpy as np
from pydantic import Field, JsonValue, NonNegativeInt, PositiveInt, ValidationError, model_validator

from gnnplan.planner.cluster import Placement
from gnnplan.planner.composition.refusals import fidelity_of, refusals
from gnnplan.planner.contracts.choice import Choice
from gnnplan.planner.contracts.fidelity import EXACT, up_to
from gnnplan.planner.graph import Graph
from gnnplan.planner.halo import nothing_pruned
from gnnplan.planner.hybrid.decision import COMMUNICATE_ALL, DependencyDecision
from gnnplan.planner.hybrid.levels import levels_of, why_not
from gnnplan.planner.hybrid.sizes import Replicas
from gnnplan.planner.job import Balance, Job, Partitioner, Prune
from gnnplan.planner.joint_cache.consistency import cache_fault
from gnnplan.planner.joint_cache.decision import NO_CACHE, CacheDecision
from gnnplan.planner.joint_cache.layout import RegionLayout
from gnnplan.planner.loaders.read import reading
from gnnplan.planner.partial.decision import PartialReduceDecision, waiting_among
from gnnplan.planner.program.document import CycleDocument
from gnnplan.planner.program.region import RegionLayout as ProgramRegion
from gnnplan.planner.program.region import region_layout
from gnnplan.planner.readers.shares import shares_of
from gnnplan.planner.shapes import WorkerShape
from gnnplan.planner.steps import LayerDecision, Program, build_program, num_hops
from gnnplan.planner.techniques.registry import technique
from gnnplan.planner.weather.model import WeatherFigures
from gnnplan.profiles.contract import Contract, Document, replacing
from gnnplan.profiles.errors import UserError


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
        dependencies: which halo rows workers make themselves.
        overlap: local rows are aggregated while halo rows travel.
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
    dependencies: DependencyDecision = COMMUNICATE_ALL
    overlap: bool = False
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


def _program_regions(document: CycleDocument, placement: Placement) -> dict[str, RegionLayout | ProgramRegion]:
    if all(value.tier == "device" for value in document.values.values()):
        return {}
    cycle = document.cycle()
    found = {worker.host: region_layout(cycle, rank) for rank, worker in enumerate(placement.workers)}
    return {host: layout for host, layout in found.items() if layout and layout.has_rows}


def has_program(decision: FullBatchDecision) -> bool:
    """Whether a decision is written as an explicit program. The others are still lowered layer by layer."""
    return not decision.dependencies.replicates and not decision.cache.region


class Chosen(Contract):
    """A technique that takes part in a plan, and what was decided for it; its arrays lie beside the plan."""

    technique: str
    decision: dict[str, JsonValue] = Field(default_factory=dict)

    @classmethod
    def of(cls, choice: Choice) -> Chosen:
        """What a plan keeps of a choice."""
        return cls(technique=choice.technique, decision=choice.decision.model_dump(mode="json"))

    def choice(self, arrays: Mapping[str, np.ndarray] | None = None) -> Choice:
        """The choice again; `UserError` where its technique is not known or its decision is none of it.

        Args:
            arrays: of all choices, by `technique/name` (None: without them).
        """
        known = technique(self.technique)
        try:
            decision = known.Decision.model_validate(self.decision)
        except ValidationError as error:
            raise UserError(f"choices: {self.technique}: {error.errors()[0]['msg']}; make the plan again") from error
        own = {name: (arrays or {})[f"{self.technique}/{name}"] for name in known.arrays} if arrays else {}
        return Choice(self.technique, decision, own)


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
        decision: what was decided layer by layer, where the plan's techniques are not choices yet.
        choices: the techniques that take part, in the order in which they were put together; else `decision` is there.
        shapes: of each worker's share, so that the plan can be simulated without its graph.
        send_counts: `send_counts[p][q]` rows go from worker p to q in one exchange.
        pruned: of each worker; empty where nothing is.
        replicas: sizes of what workers make of others' vertices (None: all halo rows are communicated).
        cycle: the programs of the training, operator by operator (None: the decision is still lowered layer by layer).
        partition_file: `.npz` beside the plan, with the arrays of `Partition`.
        partition_sha256: of their bytes.
        considered: the best of the alternatives, fastest first.
    """

    KIND: ClassVar[str] = "plan"

    job: Job
    placement: Placement
    graph: GraphFacts
    decision: FullBatchDecision | None = None
    choices: tuple[Chosen, ...] = ()
    shapes: tuple[WorkerShape, ...] = ()
    send_counts: tuple[tuple[NonNegativeInt, ...], ...] = ()
    pruned: tuple[PrunedHalo, ...] = ()
    replicas: Replicas | None = None
    cycle: CycleDocument | None = None
    prediction: Prediction
    partition_file: str
    partition_sha256: str
    considered: tuple[Candidate, ...] = ()

    @property
    def num_workers(self) -> int:
        """Workers the plan runs on."""
        return len(self.placement.workers)

    @property
    def layered(self) -> FullBatchDecision:
        """What was decided layer by layer; only for plans that are not made of choices."""
        assert self.decision is not None, "this plan is made of choices"
        return self.decision

    @property
    def drops_edges(self) -> bool:
        """Whether halo vertices with aggregation edges were pruned."""
        return any(halo.num_edges for halo in self.pruned)

    @property
    def refresh_interval(self) -> int:
        """Epochs from one that refreshes what is reused to the next; 1 where all are alike."""
        if self.decision is not None:
            return self.decision.cache.refresh_interval
        return len(self.cycle.order) if self.cycle else 1

    @property
    def partial(self) -> PartialReduceDecision | None:
        """How workers wait for each other (None: all wait for all)."""
        if self.decision is not None:
            return self.decision.partial
        return waiting_among(chosen.choice().decision for chosen in self.choices)

    @property
    def is_partial(self) -> bool:
        """Whether workers may go on without those that lag behind."""
        return self.partial is not None and self.partial.is_stale

    @property
    def is_stale(self) -> bool:
        """Whether some rows or gradients are of earlier epochs."""
        return self.decision.is_stale if self.decision else self.refresh_interval > 1 or self.is_partial

    @property
    def fidelity(self) -> str:
        """`exact`, `approximate` where aggregation edges are dropped, `stale(r)`, or both of these."""
        if self.decision is None:
            costs = {fidelity_of(chosen.choice()) for chosen in self.choices} - {EXACT}
            return ", ".join(map(str, sorted(costs, reverse=True))) or "exact"
        stale = (self.decision.fidelity,) if self.decision.is_stale else ()
        return ", ".join((("approximate",) if self.drops_edges else ()) + stale) or "exact"

    def shares(self) -> tuple[tuple[int, int, int], ...]:
        """Of every worker its own vertices, the edges that it sums over, and rows that it receives for them.

        Edges and rows are those of the aggregation that has most of them.
        """
        if self.cycle is None:
            return tuple((shape.num_local, shape.num_edges, shape.num_halo) for shape in self.shapes)
        return shares_of(self.cycle.cycle())

    def program(self) -> Program:
        """The operators of one epoch."""
        return build_program(
            self.job.model,
            self.layered.layers,
            num_features=self.graph.num_features,
            num_classes=self.graph.num_classes,
            sparse_input=self.layered.sparse_features,
        )

    @model_validator(mode="after")
    def _is_consistent(self) -> Self:
        if len(self.prediction.workers) != self.num_workers:
            raise ValueError(f"prediction.workers must have {self.num_workers} workers")
        if self.cycle is not None and self.cycle.num_workers != self.num_workers:
            raise ValueError(f"cycle must have {self.num_workers} workers")
        missing = {worker.profile for worker in self.placement.workers} - set(self.placement.profiles)
        if missing:
            raise ValueError(f"placement.profiles lacks {', '.join(sorted(missing))}")
        if (self.decision is None) != bool(self.choices):
            raise ValueError("a plan has either choices or a decision")
        self._check_choices() if self.choices else self._check_layered(self.layered)
        return self

    def _check_choices(self) -> None:
        if self.cycle is None:
            raise ValueError("cycle: a plan of choices has a program; make the plan again")
        if self.shapes or self.send_counts or self.pruned or self.replicas:
            raise ValueError("shapes, send_counts, pruned and replicas are for plans that are decided layer by layer")
        choices = [chosen.choice() for chosen in self.choices]
        if refused := refusals(choices, up_to(self.job.fidelity)):
            raise ValueError(f"choices: {refused[0]}")
        self._check_regions()

    def _check_regions(self) -> None:
        for host, layout in self.region_layouts().items():
            has = next(worker.region_bytes for worker in self.placement.workers if worker.host == host)
            needs = f"host {host} needs a region of {layout.num_bytes:,} bytes"
            if layout.num_bytes > has:
                raise ValueError(f"cycle: {needs} and has one of {has:,}")

    def _check_layered(self, decision: FullBatchDecision) -> None:
        size = self.num_workers
        counts = [len(self.shapes), len(self.send_counts)]
        if any(count != size for count in counts) or any(len(row) != size for row in self.send_counts):
            raise ValueError(f"shapes, send_counts and prediction.workers must each have {size} workers")
        if len(self.pruned) not in (0, size):
            raise ValueError(f"pruned must have {size} workers, or none where nothing is pruned")
        if self.drops_edges and not (self.job.allows("approximate") and decision.prune != "none"):
            raise ValueError("pruned: edges are dropped, which the job's fidelity or decision.prune does not allow")
        if decision.is_stale and not self.job.allows("stale"):
            whose = "partial" if decision.is_partial else "cache"
            raise ValueError(f"decision.{whose}: rows are reused, which the job's fidelity does not allow")
        if len(decision.layers) != self.job.model.num_layers:
            raise ValueError(f"decision.layers must have {self.job.model.num_layers} layers")
        first = decision.layers[0]
        if decision.sparse_features and first.op_order == "aggregate_first" and not first.precompute:
            raise ValueError("decision.layers.0: sparse features are aggregated once (precompute) or multiplied first")
        if any(len(shape.hop_entries) != num_hops(self.job.model) + 1 for shape in self.shapes):
            raise ValueError(f"shapes: hop_entries must have {num_hops(self.job.model) + 1} values")
        self._check_partial()
        self._check_replicas()
        if decision.overlap and decision.partial:
            raise ValueError("decision.overlap: partial reduce waits for each exchange")
        if self.cycle is not None and not has_program(decision):
            raise ValueError("cycle: a plan with these decisions has no program yet; make the plan again")
        fault = cache_fault(decision.cache, self.send_counts, self.placement, self.program())
        if fault:
            raise ValueError(fault)

    def region_layouts(self) -> dict[str, RegionLayout | ProgramRegion]:
        """What the workers of each host share of its memory, by the host's name; nothing where they share none."""
        if self.cycle is not None:
            return _program_regions(self.cycle, self.placement)
        if self.decision is None:
            return {}
        cache, place = self.layered.cache, self.placement
        names = {worker.host: worker.host_index for worker in place.workers}
        layouts = {name: RegionLayout.of(self.program(), cache, place.host_of, host) for name, host in names.items()}
        return {name: layout for name, layout in layouts.items() if layout.num_rows}

    def _check_partial(self) -> None:
        partial, size = self.layered.partial, self.num_workers
        if partial is None:
            return
        if self.job.pin.partial_reduce is None or self.layered.cache.keeps_any:
            raise ValueError("decision.partial: the job does not pin partial_reduce, or halo rows are kept beside it")
        if [len(row) for row in partial.contributing] != [size] * self.job.model.num_layers:
            raise ValueError(f"decision.partial: contributing must have a row a layer, of {size} workers")
        if partial.min_group > size:
            raise ValueError(f"decision.partial: min_group is {partial.min_group}, and there are {size} workers")

    def _check_replicas(self) -> None:
        decided = self.layered.dependencies
        if decided.replicates != (self.replicas is not None):
            raise ValueError("replicas must be there where decision.dependencies is not 'communicate', and only there")
        if self.replicas is None:
            return
        if {len(self.replicas.workers), len(decided.workers)} != {self.num_workers}:
            raise ValueError(f"replicas and decision.dependencies must each have {self.num_workers} workers")
        if any((np.array(counts) > np.array(self.send_counts)).any() for counts in self.replicas.row_counts):
            raise ValueError("replicas: more rows are sent than send_counts has")
        fault = why_not(self.job.model, self.layered.layers)
        decision = self.layered
        if fault or decision.cache.keeps_any or decision.overlap or self.drops_edges:
            what = fault or "no kept or pruned halo rows and no overlap beside it"
            raise ValueError(f"decision.dependencies: {what}")
        facts = self.graph
        levels = levels_of(self.job.model, self.layered.layers, facts.num_features, facts.num_classes)
        if (self.replicas.first, len(self.replicas.row_counts)) != (levels.first, levels.count - levels.first):
            raise ValueError(f"replicas: levels {levels.first} to {levels.count - 1} must be there")

    def check_graph(self, graph: Graph) -> None:
        """`UserError` where the plan was made for another graph."""
        if graph.fingerprint != self.graph.fingerprint:
            raise UserError(
                f"the plan was made for graph {self.graph.name} ({self.graph.fingerprint}), "
                f"{graph.name} is {graph.fingerprint}; make a new plan for it"
            )


def no_dependencies() -> np.ndarray:
    """int32 [3, 0]: the dependencies that a plan caches where it communicates all."""
    return np.empty((3, 0), np.int32)


_PAIRS = {"pruned": 2, "cached": 3, "staged": 3}  # rows of the arrays that a partition may do without


@dataclass(frozen=True)
class Partition:
    """Who owns every vertex, which halo vertices the workers do without, and which dependencies they cache.

    Args:
        part: int32 [N].
        pruned: int32 [2, P], (worker, vertex).
        cached, staged: int32 [3, C] and [3, S], (worker, level, vertex): what is cached, and what may be.
        chosen: of a plan of choices, every array by `technique/name`; the others are empty then.
    """

    part: np.ndarray = field(default_factory=lambda: np.empty(0, np.int32))
    pruned: np.ndarray = field(default_factory=nothing_pruned)
    cached: np.ndarray = field(default_factory=no_dependencies)
    staged: np.ndarray = field(default_factory=no_dependencies)
    chosen: Mapping[str, np.ndarray] = field(default_factory=dict)

    @classmethod
    def of(cls, choices: Iterable[Choice]) -> Partition:
        """The arrays of choices."""
        arrays = ((f"{each.technique}/{name}", array) for each in choices for name, array in each.arrays.items())
        return cls.chosen_of(dict(arrays))

    @classmethod
    def chosen_of(cls, arrays: Mapping[str, np.ndarray]) -> Partition:
        """Arrays by `technique/name`; the one of a layout that gives every vertex an owner is `part` too."""
        part = next((array for name, array in arrays.items() if name.endswith("/part")), np.empty(0, np.int32))
        return cls(part, chosen=arrays)

    def digest(self) -> str:
        """SHA-256 of the bytes of all as int32, and of the names of those that were chosen."""
        digest = hashlib.sha256()
        for array in (self.part, self.pruned, self.cached, self.staged):
            digest.update(np.ascontiguousarray(array, dtype=np.int32).tobytes())
        for name, array in sorted(self.chosen.items()):
            digest.update(f"{name}{array.dtype}{array.shape}".encode())
            digest.update(np.ascontiguousarray(array).tobytes())
        return digest.hexdigest()


def save_plan(plan: Plan, partition: Partition, path: Path) -> Path:
    """Writes the partition beside the plan, then the plan; a plan on disk is never half there."""
    arrays = {} if plan.choices else {"part": partition.part.astype(np.int32)}
    for name in _PAIRS:
        if getattr(partition, name).size:
            arrays[name] = getattr(partition, name).astype(np.int32)
    with replacing(path.parent / plan.partition_file) as temporary:
        np.savez_compressed(temporary, **arrays, **partition.chosen)  # type: ignore[arg-type]
    return plan.save(path)


def load_partition(plan: Plan, plan_path: Path) -> Partition:
    """The partition of a plan; `UserError` where it is missing, damaged or another plan's."""
    path = plan_path.parent / plan.partition_file
    if not path.exists():
        raise UserError(f"{path}: the plan's partition is missing; keep it beside the plan")
    with reading(path, "a partition file"), np.load(path, allow_pickle=False) as file:
        if plan.choices:
            found = Partition.chosen_of({name: file[name] for name in file.files})
        else:
            found = Partition(file["part"], **{name: file[name] for name in _PAIRS if name in file})
    if not _has_shapes(found, plan) or found.digest() != plan.partition_sha256:
        raise UserError(f"{path}: not the partition this plan was made with; make the plan again")
    return found


def _has_shapes(found: Partition, plan: Plan) -> bool:
    if plan.choices:
        wanted = {f"{each.technique}/{name}" for each in plan.choices for name in technique(each.technique).arrays}
        return set(found.chosen) == wanted
    has_shape = found.part.shape == (plan.graph.num_nodes,)
    return has_shape and all(getattr(found, name).shape[:-1] == (rows,) for name, rows in _PAIRS.items())
