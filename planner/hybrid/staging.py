"""What a worker is given to make rows of its halo from: written beside its shard, held in host memory.

It holds all that the cached dependencies need, and all that may be cached while it runs, so that deciding again
moves no data between workers.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import scipy.sparse as sp

from gnnplan.planner.array_file import ArrayFile
from gnnplan.planner.graph import Graph
from gnnplan.planner.halo import Halo, LocalBlock
from gnnplan.planner.hybrid.dependencies import Charge, Dependencies, find_dependencies
from gnnplan.planner.hybrid.levels import Levels, levels_of, sparse_row_bytes
from gnnplan.planner.hybrid.matrices import neighbourhood_rows
from gnnplan.planner.hybrid.neighbourhood import Neighbourhood, build_neighbourhood
from gnnplan.planner.hybrid.split import Split, make_split
from gnnplan.planner.plan import Partition, Plan
from gnnplan.planner.steps import Program


@dataclass(frozen=True)
class Staged(ArrayFile):
    """One worker's replicas-to-be.

    Shapes: n own vertices, h halo vertices, b staged vertices beyond, t of both with input rows, l levels that travel,
    m dependencies that may be cached while it runs (0: the split never changes).

    Args:
        first: the lowest level at which rows travel.
        num_hops, vertices, owner, num_entries, starts, gathers: of the neighbourhood, cut down to what is staged.
        rows: CSR [h + b, n + h + b] of the aggregation matrix over own rows, halo and beyond.
        input_places: int64 [t], ascending places in the neighbourhood.
        inputs: float32 [t, F x hops], dense or CSR: every precomputed hop of the features beside the other.
        cached, may_cache: bool [l, h].
        row_width: float64 [m], floats of a row of each dependency that may be cached, level by level.
        alone, shared: float64 [m, 3], vertex work, edge work and bytes of caching it.
    """

    WHAT = "a worker's staged rows"

    first: int
    num_hops: int
    vertices: np.ndarray
    owner: np.ndarray
    num_entries: np.ndarray
    starts: np.ndarray
    gathers: np.ndarray
    rows: sp.csr_matrix
    input_places: np.ndarray
    inputs: np.ndarray | sp.csr_matrix
    cached: np.ndarray
    may_cache: np.ndarray
    row_width: np.ndarray
    alone: np.ndarray
    shared: np.ndarray

    @property
    def near(self) -> Neighbourhood:
        """The staged part of the worker's neighbourhood."""
        return Neighbourhood(
            vertices=self.vertices,
            num_halo=len(self.owner),
            owner=self.owner,
            num_hops=self.num_hops,
            num_entries=self.num_entries,
            starts=self.starts,
            gathers=self.gathers,
        )

    @property
    def dependencies(self) -> Dependencies:
        """Those that may be cached while it runs, in the order of `may_cache`."""
        level, place = np.nonzero(self.may_cache)
        return Dependencies(
            level=(self.first + level).astype(np.int32),
            owner=self.owner[place],
            row_width=self.row_width,
            alone=Charge(*np.ascontiguousarray(self.alone.T)),
            shared=Charge(*np.ascontiguousarray(self.shared.T)),
        )

    def split(self, cached: np.ndarray) -> Split:
        """The split that caches these dependencies, bool [l, h], all of which may be."""
        assert not (cached & ~self.may_cache).any(), "what is not staged cannot be cached"
        return make_split(self.near, self.first, cached)


def write_staged(
    plan: Plan, graph: Graph, matrix: sp.csr_matrix, halo: Halo, partition: Partition, folder: Path
) -> None:
    """Writes every worker's `staged_{rank}.npz`, where workers of the plan replicate."""
    if plan.replicas is None:
        return
    program, decision = plan.program(), plan.layered
    input_bytes = sparse_row_bytes(program, plan.shapes)
    levels = levels_of(plan.job.model, decision.layers, graph.num_features, graph.num_classes, input_bytes=input_bytes)
    for rank, block in enumerate(halo.blocks):
        cached, may_cache = (dependency_mask(p, rank, block, levels) for p in (partition.cached, partition.staged))
        staged = cut_staged(
            graph,
            matrix,
            block,
            levels,
            program,
            cached,
            cached | may_cache,
            adjusts=decision.dependencies.adjust == "online",
            sparse_features=decision.sparse_features,
        )
        staged.save(folder / f"staged_{rank}.npz")


def dependency_mask(chosen: np.ndarray, rank: int, block: LocalBlock, levels: Levels) -> np.ndarray:
    """bool [levels, h]: which of one worker's dependencies are among int [3, C] (worker, level, vertex)."""
    mask = np.zeros((levels.count - levels.first, len(block.halo)), bool)
    _, level, vertex = chosen[:, chosen[0] == rank]
    order = np.argsort(block.halo)
    place = order[np.searchsorted(block.halo, vertex, sorter=order)] if len(vertex) else vertex
    assert (block.halo[place] == vertex).all(), "a dependency is in no halo"
    mask[level - levels.first, place] = True
    return mask


def dependency_triples(masks: Sequence[np.ndarray], halo: Halo, first: int) -> np.ndarray:
    """int32 [3, C], (worker, level, vertex), of bool [levels, h] for the first workers."""
    found = [np.empty((3, 0), np.int32)]
    for rank, (mask, block) in enumerate(zip(masks, halo.blocks)):
        level, place = np.nonzero(mask)
        found.append(np.stack([np.full(len(level), rank), first + level, block.halo[place]]).astype(np.int32))
    return np.concatenate(found, axis=1)


def cut_staged(
    graph: Graph,
    matrix: sp.csr_matrix,
    block: LocalBlock,
    levels: Levels,
    program: Program,
    cached: np.ndarray,
    may_cache: np.ndarray,
    *,
    adjusts: bool,
    sparse_features: bool,
) -> Staged:
    """What one worker needs to cache the dependencies `cached`, or any others that it `may_cache`, bool [levels, h]."""
    near = build_neighbourhood(matrix, block, levels.num_hops)
    union = make_split(near, levels.first, may_cache)
    rows = neighbourhood_rows(matrix, block, near)
    small, kept = _restricted(near, union)
    has_inputs = np.zeros(len(near.vertices), bool)
    has_inputs[union.replicas(levels.first)] = True
    input_places = np.flatnonzero(has_inputs[kept])
    chosen = np.flatnonzero(may_cache.ravel()) if adjusts else np.empty(0, np.int64)
    charges = find_dependencies(near, levels) if adjusts else None
    return Staged(
        first=levels.first,
        num_hops=levels.num_hops,
        vertices=small.vertices,
        owner=small.owner,
        num_entries=small.num_entries,
        starts=small.starts,
        gathers=small.gathers,
        rows=_staged_rows(rows, union, kept),
        input_places=input_places,
        inputs=_inputs(graph, matrix, small.vertices[input_places], program, sparse_features),
        cached=cached,
        may_cache=may_cache,
        row_width=charges.row_width[chosen] if charges else np.empty(0),
        alone=_table(charges.alone, chosen) if charges else np.empty((0, 3)),
        shared=_table(charges.shared, chosen) if charges else np.empty((0, 3)),
    )


def _table(charge: Charge, chosen: np.ndarray) -> np.ndarray:
    return np.stack([charge.vertex_work, charge.edge_work, charge.num_bytes], axis=1)[chosen]


def _restricted(near: Neighbourhood, union: Split) -> tuple[Neighbourhood, np.ndarray]:
    """(the neighbourhood of the staged vertices alone, the halo always; their places in the whole one, int64)."""
    keeps = union.anywhere
    keeps[: near.num_halo] = True
    kept = np.flatnonzero(keeps)
    number = np.cumsum(keeps) - 1
    gathers_any = union.above_first
    counts = np.where(gathers_any, np.diff(near.starts), 0)[kept]
    gathered = near.gathers[np.repeat(gathers_any, np.diff(near.starts))]
    assert keeps[gathered].all(), "a staged replica gathers what is not staged"
    small = Neighbourhood(
        vertices=near.vertices[kept],
        num_halo=near.num_halo,
        owner=near.owner,
        num_hops=near.num_hops,
        num_entries=near.num_entries[kept],
        starts=np.concatenate([[0], np.cumsum(counts)]).astype(np.int64),
        gathers=number[gathered].astype(np.int32),
    )
    return small, kept


def _staged_rows(rows: sp.csr_matrix, union: Split, kept: np.ndarray) -> sp.csr_matrix:
    """The rows of what is gathered, over own rows and the staged vertices; others are empty."""
    num_local = rows.shape[1] - rows.shape[0]
    column = np.full(rows.shape[1], -1, np.int64)
    column[:num_local] = np.arange(num_local)
    column[num_local + kept] = num_local + np.arange(len(kept))
    above = union.above_first
    wanted = rows[np.flatnonzero(above)]
    assert (column[wanted.indices] >= 0).all(), "a staged row gathers what is not staged"
    lengths = np.zeros(rows.shape[0], np.int64)
    lengths[above] = np.diff(wanted.indptr)
    return sp.csr_matrix(
        (
            wanted.data,
            column[wanted.indices].astype(np.int32),
            np.concatenate([[0], np.cumsum(lengths[kept])]).astype(np.int32),
        ),
        shape=(len(kept), num_local + len(kept)),
    )


def _inputs(
    graph: Graph, matrix: sp.csr_matrix, vertices: np.ndarray, program: Program, sparse_features: bool
) -> np.ndarray | sp.csr_matrix:
    """Rows [t, F x hops] of every precomputed hop of the features, or of the features themselves."""
    hops = [int(name[1:]) for name in program.precomputed] or [0]
    if not len(vertices):
        width = graph.num_features * len(hops)
        return sp.csr_matrix((0, width), dtype=np.float32) if sparse_features else np.empty((0, width), np.float32)
    before, found = graph.x, []
    for hop in range(max(hops) + 1):
        if hop in hops:
            found.append(matrix[vertices] @ before if hop else graph.x[vertices])
        if 0 < hop < max(hops):
            before = matrix @ before
    if sparse_features:
        return sp.hstack([sp.csr_matrix(rows) for rows in found], format="csr")
    return np.hstack([rows.toarray() if sp.issparse(rows) else rows for rows in found])
