"""The sizes that a split of every worker's dependencies gives each level, for seconds, bytes and memory."""

from __future__ import annotations

from typing import Self

import numpy as np
import scipy.sparse as sp
from pydantic import NonNegativeInt, model_validator

from gnnplan.planner.halo import Halo
from gnnplan.planner.hybrid.neighbourhood import Neighbourhood
from gnnplan.planner.hybrid.split import Split
from gnnplan.planner.hybrid.steps import StepLevels
from gnnplan.planner.shapes import WorkerShape
from gnnplan.planner.steps import Step
from gnnplan.profiles.contract import Contract


class LevelSize(Contract):
    """One worker at one level, and the gather from there to the next.

    Args:
        num_replicas: rows made here of vertices that others own.
        num_fetched, num_sent: rows received and sent in one exchange.
        near_edges: entries of own rows over replicas.
        made_edges: entries of the next level's replicas over own rows and replicas.
        far_edges: entries of both over fetched rows.
    """

    num_replicas: NonNegativeInt
    num_fetched: NonNegativeInt
    num_sent: NonNegativeInt
    near_edges: NonNegativeInt
    made_edges: NonNegativeInt
    far_edges: NonNegativeInt


class ReplicaSizes(Contract):
    """One worker.

    Args:
        levels: from the lowest at which rows travel.
        input_entries: stored entries of X, AX ... over own rows and replicas of that level (rows x F where dense).
    """

    levels: tuple[LevelSize, ...]
    input_entries: tuple[NonNegativeInt, ...]


class Replicas(Contract):
    """All workers under one split each: enough to simulate a plan without its graph.

    Args:
        first: the lowest level at which rows travel.
        row_counts: `row_counts[i][p][q]` rows go from worker p to q in one exchange of level `first` + i.
    """

    first: NonNegativeInt
    workers: tuple[ReplicaSizes, ...]
    row_counts: tuple[tuple[tuple[NonNegativeInt, ...], ...], ...]

    @model_validator(mode="after")
    def _is_consistent(self) -> Self:
        size, counts = len(self.workers), self.row_counts
        if any(len(each) != size or any(len(row) != size for row in each) for each in counts):
            raise ValueError(f"row_counts must be {size} x {size} at every level")
        if any(len(worker.levels) != len(counts) for worker in self.workers):
            raise ValueError(f"every worker must have {len(counts)} levels, as row_counts has")
        for index, matrix in enumerate(counts):
            for rank, worker in enumerate(self.workers):
                level = worker.levels[index]
                if (level.num_sent, level.num_fetched) != (sum(matrix[rank]), sum(row[rank] for row in matrix)):
                    raise ValueError(f"worker {rank} sends or fetches other rows than row_counts says")
        return self

    def counts(self, level: int) -> np.ndarray:
        """int64 [W, W], rows sent in one exchange of a level."""
        return np.array(self.row_counts[level - self.first], np.int64)

    def size(self, rank: int, level: int) -> LevelSize:
        """One worker's sizes at a level."""
        return self.workers[rank].levels[level - self.first]

    def num_replicas(self, rank: int, level: int) -> int:
        """Rows made here of others' vertices; none at the last level, the logits'."""
        levels = self.workers[rank].levels
        return levels[level - self.first].num_replicas if level - self.first < len(levels) else 0

    def step_shape(self, rank: int, own: WorkerShape, step: Step, levels: StepLevels) -> WorkerShape:
        """The worker's shape as a step that is no aggregation or exchange sees it: own rows and replicas."""
        level, written = levels.rows[step.name], levels.written(step)
        num_rows = own.num_local + self.num_replicas(rank, written)
        if step.op != "attend":
            return own.model_copy(
                update={"num_local": num_rows, "hop_entries": self.workers[rank].input_entries or own.hop_entries}
            )
        size = self.size(rank, level)
        num_sources = own.num_local + size.num_replicas + size.num_fetched
        num_edges = own.local_edges + size.near_edges + size.made_edges + size.far_edges
        return own.model_copy(
            update={
                "num_local": num_rows,
                "num_halo": num_sources - num_rows,
                "local_edges": num_edges,
                "remote_edges": 0,
            }
        )


def replica_sizes(
    halo: Halo,
    nears: tuple[Neighbourhood, ...],
    rows: tuple[sp.csr_matrix, ...],
    splits: tuple[Split, ...],
    input_entries: tuple[tuple[int, ...], ...],
) -> Replicas:
    """The sizes of every worker under its split.

    Args:
        rows: of each worker's neighbourhood, as `neighbourhood_rows` gives them.
        input_entries: of each worker, as in `ReplicaSizes`.
    """
    num_levels = len(splits[0].is_replica)
    counts = np.zeros((num_levels, halo.num_workers, halo.num_workers), np.int64)
    for rank, (near, split) in enumerate(zip(nears, splits, strict=True)):
        for index in range(num_levels):
            fetched_from = near.owner[~split.cached[index]]
            counts[index, :, rank] = np.bincount(fetched_from, minlength=halo.num_workers)
    workers = []
    for rank, block in enumerate(halo.blocks):
        gathered = np.bincount(block.remote.indices, minlength=len(block.halo))
        levels = [
            _level_size(gathered, rows[rank], splits[rank], splits[rank].first + index, counts[index, rank].sum())
            for index in range(num_levels)
        ]
        workers.append(ReplicaSizes(levels=tuple(levels), input_entries=input_entries[rank]))
    return Replicas(
        first=splits[0].first,
        workers=tuple(workers),
        row_counts=tuple(tuple(map(tuple, matrix)) for matrix in counts.tolist()),
    )


def most_sizes(union: Replicas, none: Replicas) -> Replicas:
    """No fewer rows and entries of any kind than any split between caching nothing and caching all of a union."""
    workers = []
    for ours, theirs in zip(union.workers, none.workers, strict=True):
        levels = tuple(_most_size(most, least) for most, least in zip(ours.levels, theirs.levels, strict=True))
        workers.append(ReplicaSizes(levels=levels, input_entries=ours.input_entries))
    return Replicas(first=none.first, workers=tuple(workers), row_counts=none.row_counts)


def most_levels(
    remote: sp.csr_matrix, rows: sp.csr_matrix, union: Split, none: Split, num_sent: int
) -> tuple[LevelSize, ...]:
    """One worker's levels as in `most_sizes`.

    Args:
        remote: CSR [n, h], own rows over the halo.
        rows: of its neighbourhood, as `neighbourhood_rows` gives them.
        union, none: with all that may be cached, and with nothing.
        num_sent: rows that it sends where nobody caches any.
    """
    gathered = np.bincount(remote.indices, minlength=remote.shape[1])
    levels = range(union.first, union.first + len(union.is_replica))
    sizes = ([_level_size(gathered, rows, split, level, num_sent) for level in levels] for split in (union, none))
    return tuple(_most_size(most, least) for most, least in zip(*sizes, strict=True))


def _most_size(union: LevelSize, none: LevelSize) -> LevelSize:
    return LevelSize(
        num_replicas=union.num_replicas,
        num_fetched=none.num_fetched,
        num_sent=none.num_sent,
        near_edges=union.near_edges,
        made_edges=union.made_edges + union.far_edges,
        far_edges=none.far_edges + union.made_edges + union.far_edges,
    )


def _level_size(gathered: np.ndarray, rows: sp.csr_matrix, split: Split, level: int, num_sent: int) -> LevelSize:
    """`gathered` int64 [h]: entries of the own rows over each halo vertex."""
    cached = split.cached[level - split.first]
    made = rows[split.replicas(level + 1)]
    first_place = rows.shape[1] - rows.shape[0]
    is_fetched = np.zeros(rows.shape[1], bool)
    is_fetched[first_place + split.fetched(level)] = True
    num_far = int(is_fetched[made.indices].sum())
    return LevelSize(
        num_replicas=int(split.is_replica[level - split.first].sum()),
        num_fetched=int((~cached).sum()),
        num_sent=int(num_sent),
        near_edges=int(gathered[cached].sum()),
        made_edges=made.nnz - num_far,
        far_edges=int(gathered[~cached].sum()) + num_far,
    )
