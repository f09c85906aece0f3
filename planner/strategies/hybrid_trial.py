"""One partition under one order of operators, with its workers' dependencies and what splits of them amount to."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property

import numpy as np
import scipy.sparse as sp

from gnnplan.planner.hybrid.decide import HybridDecision, decide
from gnnplan.planner.hybrid.dependencies import Dependencies, Rates, find_dependencies
from gnnplan.planner.hybrid.levels import Levels, levels_of, sparse_row_bytes
from gnnplan.planner.hybrid.lowering import HybridLowering
from gnnplan.planner.hybrid.matrices import neighbourhood_rows
from gnnplan.planner.hybrid.memory import Staging
from gnnplan.planner.hybrid.neighbourhood import Neighbourhood, build_neighbourhood
from gnnplan.planner.hybrid.rates import predicted_rates
from gnnplan.planner.hybrid.replicated import Replicated
from gnnplan.planner.hybrid.sizes import Replicas, most_sizes, replica_sizes
from gnnplan.planner.hybrid.split import Split, SplitWork, make_split, work_of
from gnnplan.planner.hybrid.staging import dependency_triples
from gnnplan.planner.steps import LayerDecision
from gnnplan.planner.strategies.trial import Trial

Masks = Sequence[np.ndarray]
"""bool [levels, h] of every worker: some of its dependencies."""


@dataclass
class HybridTrial:
    """A trial under decided layers; what is costly is computed once.

    Args:
        matrix: the aggregation matrix of the whole graph.
    """

    trial: Trial
    layers: tuple[LayerDecision, ...]
    matrix: sp.csr_matrix
    _decided: dict[tuple[int, float], HybridDecision] = field(default_factory=dict)

    @property
    def num_workers(self) -> int:
        """Workers of the partition."""
        return len(self.trial.halo.blocks)

    @cached_property
    def levels(self) -> Levels:
        """Widths and bytes of every level."""
        graph, model = self.trial.problem.graph, self.trial.problem.job.model
        input_bytes = sparse_row_bytes(self.trial.program(self.layers), self.trial.shapes)
        return levels_of(model, self.layers, graph.num_features, graph.num_classes, input_bytes=input_bytes)

    @cached_property
    def nears(self) -> tuple[Neighbourhood, ...]:
        """Of every worker."""
        blocks = self.trial.halo.blocks
        return tuple(build_neighbourhood(self.matrix, block, self.levels.num_hops) for block in blocks)

    @cached_property
    def rows(self) -> tuple[sp.csr_matrix, ...]:
        """Of every worker's neighbourhood, of the aggregation matrix."""
        pairs = zip(self.trial.halo.blocks, self.nears)
        return tuple(neighbourhood_rows(self.matrix, block, near) for block, near in pairs)

    @cached_property
    def dependencies(self) -> tuple[Dependencies, ...]:
        """Of every worker."""
        return tuple(find_dependencies(near, self.levels) for near in self.nears)

    @cached_property
    def predicted(self) -> tuple[tuple[Rates, ...], float]:
        """(rates of every worker, seconds of an exchange of next to nothing) where all is communicated."""
        lowering = self.split_into(self.nothing).lowering(self.layers)
        assert isinstance(lowering, HybridLowering)
        lowering.lower()
        return predicted_rates(lowering, self.levels)

    @property
    def nothing(self) -> list[np.ndarray]:
        """No dependency of any worker."""
        return [np.zeros((self.levels.count - self.levels.first, near.num_halo), bool) for near in self.nears]

    @property
    def everything(self) -> list[np.ndarray]:
        """All dependencies of all workers."""
        return [~mask for mask in self.nothing]

    def decide(self, rank: int, budget_bytes: float) -> HybridDecision:
        """One worker's best choice within a budget, by its predicted rates."""
        key = (rank, budget_bytes)
        if key not in self._decided:
            near, dependencies, rates = self.nears[rank], self.dependencies[rank], self.predicted[0][rank]
            self._decided[key] = decide(near, self.levels, dependencies, rates, budget_bytes)
        return self._decided[key]

    def work(self, rank: int, mask: np.ndarray) -> SplitWork:
        """What one worker's split costs and saves."""
        return work_of(self._split(rank, mask), self.nears[rank], self.levels, self.num_workers)

    def split_into(self, cached: Masks, staged: Masks | None = None) -> Trial:
        """The trial with these dependencies cached; where some are `staged`, it may be any of them while it runs."""
        splits, unions = ([self._split(r, mask) for r, mask in enumerate(each)] for each in (cached, staged or cached))
        replicas = self._sizes(splits)
        none = [self._split(rank, mask) for rank, mask in enumerate(self.nothing)]
        made = Replicated(
            replicas=replicas,
            most=most_sizes(self._sizes(unions), self._sizes(none)) if staged else replicas,
            staging=tuple(self._staging(rank, union, staged is not None) for rank, union in enumerate(unions)),
            cached=dependency_triples(cached, self.trial.halo, self.levels.first),
            staged=dependency_triples(staged or [], self.trial.halo, self.levels.first),
        )
        return replace(self.trial, replicated=made, scaled=self.trial.shapes, overlap=False, _caches={})

    def _split(self, rank: int, mask: np.ndarray) -> Split:
        return make_split(self.nears[rank], self.levels.first, mask)

    def _sizes(self, splits: list[Split]) -> Replicas:
        entries = tuple(self._input_entries(rank, split) for rank, split in enumerate(splits))
        return replica_sizes(self.trial.halo, self.nears, self.rows, tuple(splits), entries)

    def _input_entries(self, rank: int, split: Split) -> tuple[int, ...]:
        """Stored entries of X, AX ... over own rows and replicas, which are taken to hold as many a row."""
        own, num_rows = self.trial.shapes[rank], len(split.replicas(split.first))
        return tuple(entries + -(-entries * num_rows // max(1, own.num_local)) for entries in own.hop_entries)

    def _staging(self, rank: int, union: Split, adjusts: bool) -> Staging:
        graph, program, near = self.trial.problem.graph, self.trial.program(self.layers), self.nears[rank]
        num_rows, own = len(union.replicas(union.first)), self.trial.shapes[rank]
        hops = [int(name[1:]) for name in program.precomputed] or [0]
        if self.trial.sparse:
            entries = self._input_entries(rank, union)
            input_entries = sum(entries[hop] - own.hop_entries[hop] for hop in hops)
        else:
            input_entries = len(hops) * num_rows * graph.num_features
        return Staging(
            num_places=near.num_halo + int(union.anywhere[near.num_halo :].sum()),
            num_entries=int(near.num_entries[union.above_first].sum()),
            input_entries=input_entries,
            num_dependencies=int(union.cached.sum()) if adjusts else 0,
        )
