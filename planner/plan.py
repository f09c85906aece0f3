"""The `Plan` contract: every decision of a run, the prediction it was chosen by, and what it was made for."""

from __future__ import annotations

import textwrap
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar, Self

import numpy as np
from pydantic import Field, JsonValue, PrivateAttr, ValidationError, model_validator

from gnnplan.planner.cluster import Placement
from gnnplan.planner.composition.refusals import fidelity_of, refusals
from gnnplan.planner.considered import Candidate as Candidate
from gnnplan.planner.considered import Rejected as Rejected
from gnnplan.planner.considered import Searched as Searched
from gnnplan.planner.contracts.choice import Choice
from gnnplan.planner.fidelity import EXACT
from gnnplan.planner.graph import Graph
from gnnplan.planner.job import Job
from gnnplan.planner.minibatch.decision import MiniBatchDecision, batches_among
from gnnplan.planner.partial.decision import PartialReduceDecision, waiting_among
from gnnplan.planner.prediction import Prediction
from gnnplan.planner.program.difference import difference
from gnnplan.planner.program.document import CycleDocument
from gnnplan.planner.program.outside import is_staged
from gnnplan.planner.program.region import RegionLayout, region_layout
from gnnplan.planner.readers.pinned import pinned_bytes
from gnnplan.planner.readers.shares import shares_of
from gnnplan.planner.techniques.registry import technique, techniques
from gnnplan.profiles.contract import Contract, Document
from gnnplan.profiles.errors import UserError
from gnnplan.profiles.limits import MAX_EDGES, BareName, Vertices, Width


class GraphFacts(Contract):
    """What of the graph the plan depends on, for the report and for recognising it again.

    Args:
        num_pairs: of a link prediction, on how many it trains (0: it trains on labels).
    """

    name: str
    fingerprint: str
    num_nodes: Vertices
    num_edges: int = Field(ge=0, le=MAX_EDGES)
    num_features: Width
    num_classes: Width
    num_pairs: int = Field(default=0, ge=0, le=MAX_EDGES)

    @property
    def task_words(self) -> str:
        """What is trained, in a few words: classes, or of a link prediction pairs, whose embeddings have a width."""
        if self.num_pairs:
            return f"{self.num_pairs:,} pairs to train on, embeddings of {self.num_classes}"
        return f"{self.num_classes} classes"

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
            num_pairs=graph.pairs.trained.num_pairs if graph.pairs else 0,
        )


def _region_layouts(document: CycleDocument, placement: Placement) -> dict[str, RegionLayout]:
    if all(value.tier != "region" for value in document.values.values()):
        return {}
    cycle = document.cycle()
    found = {worker.host: region_layout(cycle, rank) for rank, worker in enumerate(placement.workers)}
    return {host: layout for host, layout in found.items() if layout and layout.has_rows}


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


@dataclass(frozen=True)
class _At:
    """The file of a plan, which says nothing of what the plan is: plans are equal wherever they lie."""

    path: Path | None = field(default=None, compare=False)


class Plan(Document):
    """A plan is complete: with the graph and the devices at hand it runs as it is.

    Args:
        choices: the techniques that take part, in the order in which they were put together.
        cycle: the programs of the training, operator by operator.
        partition_file: `.npz` beside the plan, with the arrays of `Partition`.
        partition_sha256: of their bytes.
        considered: the best of the alternatives, fastest first.
        rejected: the best alternative of every kind.
        searched: what was looked at (None: of mini-batches, every way to share them out is).
    """

    KIND: ClassVar[str] = "plan"
    VERSION: ClassVar[int] = 2
    MADE_BY: ClassVar[str] = "gnnplan plan JOB CLUSTER -o PLAN"

    job: Job
    placement: Placement
    graph: GraphFacts
    choices: tuple[Chosen, ...] = Field(min_length=1)
    cycle: CycleDocument
    prediction: Prediction
    partition_file: BareName
    partition_sha256: str
    considered: tuple[Candidate, ...] = ()
    rejected: tuple[Rejected, ...] = ()
    searched: Searched | None = None
    _at: _At = PrivateAttr(default_factory=lambda: _At())

    @classmethod
    def load(cls, path: str | Path) -> Self:
        """Reads the plan, which knows its file from then on."""
        return super().load(path).lying_at(Path(path))

    def lying_at(self, path: Path) -> Self:
        """The plan, which knows its file from now on: what runs it finds its arrays there."""
        self._at = _At(path)
        return self

    @property
    def file(self) -> Path | None:
        """Where it was read from or written to; None where it never was."""
        return self._at.path

    def __repr__(self) -> str:
        hosts = ", ".join(f"{count} on {host}" for host, count in self.placement.workers_by_host.items())
        rows = [
            f"Plan {self.job.name!r} ({self.fidelity}): {self.job.model_words} on {self.graph.name}",
            f"graph: {self.graph.num_nodes:,} vertices, {self.graph.num_edges:,} edges",
            f"{self.num_workers} worker(s): {hosts}",
            f"techniques: {', '.join(chosen.technique for chosen in self.choices)}",
            f"epoch: {self.prediction.expected_epoch_s:.4g} s predicted, gap to the bound {self.prediction.gap:.0%}",
            f"file: {self.file or 'none'}",
        ]
        return "\n  ".join(textwrap.shorten(row, 110, placeholder=" ...") for row in rows)

    __str__ = __repr__

    @property
    def search_gap(self) -> float | None:
        """How far the plan is from the bound of the searched space: simulated / bound - 1 (None: there is none)."""
        if self.searched is None or not self.searched.bound_s:
            return None
        return self.prediction.long_run_epoch_s / self.searched.bound_s - 1

    @property
    def num_workers(self) -> int:
        """Workers the plan runs on."""
        return len(self.placement.workers)

    @property
    def refresh_interval(self) -> int:
        """Epochs after which the same programs come again; 1 where all are alike."""
        return len(self.cycle.order)

    @property
    def partial(self) -> PartialReduceDecision | None:
        """How workers wait for each other (None: all wait for all)."""
        return waiting_among(chosen.choice().decision for chosen in self.choices)

    @property
    def mini_batch(self) -> MiniBatchDecision | None:
        """How mini-batches are made and trained (None: every epoch is one batch, the whole graph)."""
        return batches_among(chosen.choice().decision for chosen in self.choices)

    @property
    def is_partial(self) -> bool:
        """Whether workers may go on without those that lag behind."""
        return self.partial is not None and self.partial.is_stale

    @property
    def is_stale(self) -> bool:
        """Whether some rows or gradients are of earlier epochs."""
        return self.refresh_interval > 1 or self.is_partial

    @property
    def fidelity(self) -> str:
        """`exact`, `approximate` where aggregation edges are dropped, `stale(r)`, or both of these."""
        choices = [chosen.choice() for chosen in self.choices]
        costs = {fidelity_of(choice, choices) for choice in choices} - {EXACT}
        return ", ".join(map(str, sorted(costs, reverse=True))) or "exact"

    def shares(self) -> tuple[tuple[int, int, int], ...]:
        """Of every worker its own vertices, the edges that it sums over, and rows that it receives for them.

        Edges and rows are those of the aggregation that has most of them.
        """
        return shares_of(self.cycle.cycle())

    def pinned_bytes(self) -> dict[str, int]:
        """Page-locked memory that each host's GPUs keep rows and edges in, by its name; nothing where none do."""
        if not is_staged(self.cycle):
            return {}
        cycle, found = self.cycle.cycle(), dict.fromkeys((worker.host for worker in self.placement.workers), 0)
        for rank, worker in enumerate(self.placement.workers):
            found[worker.host] += pinned_bytes(cycle, rank)
        return found

    def region_layouts(self) -> dict[str, RegionLayout]:
        """What the workers of each host share of its memory, by the host's name; nothing where they share none."""
        return _region_layouts(self.cycle, self.placement)

    @model_validator(mode="before")
    @classmethod
    def _with_kinds(cls, fields: Any) -> Any:
        techniques()  # some bring kinds of operators, which the cycle's are checked against
        return fields

    @model_validator(mode="after")
    def _is_consistent(self) -> Self:
        if len(self.prediction.workers) != self.num_workers:
            raise ValueError(f"prediction.workers must have {self.num_workers} workers")
        if self.cycle.num_workers != self.num_workers:
            raise ValueError(f"cycle must have {self.num_workers} workers")
        missing = {worker.profile for worker in self.placement.workers} - set(self.placement.profiles)
        if missing:
            raise ValueError(f"placement.profiles lacks {', '.join(sorted(missing))}")
        choices = [chosen.choice() for chosen in self.choices]
        if refused := refusals(choices, self.job.most):
            raise ValueError(f"choices: {refused[0]}")
        self._check_regions()
        return self

    def _check_regions(self) -> None:
        for host, layout in self.region_layouts().items():
            has = next(worker.region_bytes for worker in self.placement.workers if worker.host == host)
            needs = f"host {host} needs a region of {layout.num_bytes:,} bytes"
            if layout.num_bytes > has:
                raise ValueError(f"cycle: {needs} and has one of {has:,}")

    def check_graph(self, graph: Graph | GraphFacts) -> None:
        """`UserError` where the plan was made for another graph."""
        if graph.fingerprint != self.graph.fingerprint:
            raise UserError(
                f"the plan was made for graph {self.graph.name} ({self.graph.fingerprint}), "
                f"{graph.name} is {graph.fingerprint}; make a new plan for it"
            )
        facts = graph if isinstance(graph, GraphFacts) else GraphFacts.of(graph)
        if fault := difference(self.graph, facts.model_copy(update={"name": self.graph.name}), "graph"):
            raise UserError(f"the plan's {fault}: it was edited; make the plan again")
