"""Which rows and columns the workers of a grid have: a group owns rows, and its members share out their columns."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TypeVar

import numpy as np

from gnnplan.planner.program.cutter import Cutter
from gnnplan.planner.techniques.feature_slices.slices import Bounds, contiguous

T = TypeVar("T")


@dataclass(frozen=True)
class Grid:
    """Workers in groups of as many, in order: the first of the first group, its next ones, then the next group's.

    Args:
        shares: of the rows, by worker. Of columns every member has the mean over the groups of its share in its group.
        cutter: of the rows among groups (None: one group has them all).
    """

    shares: tuple[float, ...]
    cutter: Cutter | None = None

    @property
    def num_workers(self) -> int:
        """Of all groups."""
        return len(self.shares)

    @property
    def num_groups(self) -> int:
        """Each has all columns of its rows."""
        return self.cutter.num_workers if self.cutter else 1

    @property
    def num_members(self) -> int:
        """Workers of a group."""
        return self.num_workers // self.num_groups

    @cached_property
    def group_of(self) -> np.ndarray:
        """int64 [W]: every worker's group."""
        return np.arange(self.num_workers) // self.num_members

    def on_members(self, by_group: Sequence[T]) -> list[T]:
        """What each group has, for every one of its members."""
        return [by_group[group] for group in self.group_of]

    def own_rows(self, num_nodes: int) -> list[np.ndarray]:
        """Ascending vertices of every worker: a range of its group's."""
        of_groups = self.cutter.owned if self.cutter else (np.arange(num_nodes),)
        found = []
        for ids, shares in zip(of_groups, self._by_group, strict=True):
            found += [ids[start:stop] for start, stop in contiguous(len(ids), shares)]
        return found

    def columns(self, width: int, heads: int) -> Bounds:
        """Every worker's slice, which members of the same place have in every group."""
        mean = (self._by_group / self._by_group.sum(1, keepdims=True)).mean(0)
        return contiguous(width, mean.tolist(), heads) * self.num_groups

    @property
    def _by_group(self) -> np.ndarray:
        return np.reshape(self.shares, (self.num_groups, -1))

    def within_groups(self, counts: Sequence[int]) -> np.ndarray:
        """int64 [W, W]: as many rows of every worker, to each of its group."""
        is_same = self.group_of[:, None] == self.group_of
        return np.where(is_same, np.array(counts, np.int64)[:, None], 0)

    def among_groups(self, counts: np.ndarray) -> np.ndarray:
        """int64 [W, W]: rows that go from group to group [G, G], between members of the same place."""
        place = np.arange(self.num_workers) % self.num_members
        found = counts[self.group_of[:, None], self.group_of]
        return np.where(place[:, None] == place, found, 0).astype(np.int64)
