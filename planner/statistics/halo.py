"""Halo rows and remote edges of a part, from degrees and a few measured cuts.

Of a random partition both are known exactly in expectation. A part with a share p of the vertices lacks a vertex v that
has degree d_v with probability (1 - p) (1 - (1 - p)^d_v), and an edge of its own is remote with probability 1 - p.

A partitioner does better. How much better is measured at a few numbers of parts, as a ratio to the random partition.
Between these the ratio follows a power law of the number of parts, which the two next measured ones fix, and beyond
them the law of the last two goes on; it never exceeds 1. A part with a share p is taken for one of 1 / p equal parts.
That cut sizes follow a power law of the number of parts is known of meshes, where the exponent follows from the
dimension (Karypis and Kumar 1998, section 5); of graphs in general it is an assumption, and `python -m benchmarks
statistics` measures what it costs.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from gnnplan.planner.statistics.contract import Cut, Statistics
from gnnplan.planner.statistics.degrees import degrees_of


@dataclass(frozen=True)
class Halos:
    """Estimates of one graph's parts."""

    of: Statistics

    @cached_property
    def _degrees(self) -> tuple[np.ndarray, np.ndarray]:
        return degrees_of(self.of)

    def random_rows(self, share: float) -> float:
        """Expected halo rows of a part of a random partition."""
        degrees, counts = self._degrees
        if share >= 1:
            return 0.0
        missed = np.exp(degrees * math.log1p(-share))
        return float((1 - share) * (counts @ (1 - missed)))

    def touched(self, entries: float, *, has_loops: bool = False) -> float:
        """Of the columns of some rows of a matrix the share that has any entries, where one has so many on average.

        It has them in proportion to its vertex's degree, and by chance: none with probability exp(-mean).

        Args:
            has_loops: every vertex has an entry of its own.
        """
        degrees, counts = self._degrees
        all_entries = degrees + has_loops
        mean = float(counts @ all_entries) / float(counts.sum())
        return float(counts @ -np.expm1(-all_entries * entries / mean)) / float(counts.sum()) if mean else 0.0

    def rows(self, share: float) -> float:
        """Halo rows of a part with a share of the graph."""
        return self._ratio(share, self._rows_ratio) * self.random_rows(share)

    def remote_edges(self, share: float) -> float:
        """Of the edges of a part's rows those from other parts, as a share."""
        return self._ratio(share, _edges_ratio) * (1 - share)

    def largest(self, share: float, name: str) -> float:
        """Of a measured factor between the largest part and the mean what holds for parts of this size.

        Args:
            name: `largest_halo` or `largest_own`.
        """
        return max(1.0, self._ratio(share, lambda cut: getattr(cut, name), most=math.inf))

    def _rows_ratio(self, cut: Cut) -> float:
        random = cut.num_parts * self.random_rows(1 / cut.num_parts)
        return cut.halo_rows * self.of.num_nodes / random if random else 1.0

    def _ratio(self, share: float, of: Callable[[Cut], float], most: float = 1.0) -> float:
        """What `of` says of cuts, at 1 / share parts; 1 where no cut was measured."""
        if not self.of.cuts or share >= 1:
            return 1.0
        known = [(math.log(cut.num_parts), math.log(max(of(cut), 1e-12))) for cut in self.of.cuts]
        at = math.log(1 / share)
        if at <= known[0][0] or len(known) == 1:
            return min(most, math.exp(known[0][1]))
        right = next((i for i, (parts, _) in enumerate(known) if parts >= at), len(known) - 1)
        (x0, y0), (x1, y1) = known[right - 1], known[right]
        return min(most, math.exp(y0 + (at - x0) / (x1 - x0) * (y1 - y0)))


def _edges_ratio(cut: Cut) -> float:
    return cut.remote_edges / (1 - 1 / cut.num_parts)
