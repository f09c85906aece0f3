"""Degrees as a few bins: of a real graph, or of a power law."""

from __future__ import annotations

import numpy as np

from gnnplan.planner.statistics.contract import DegreeBin, Statistics

_GROWTH = 1.15  # from one bin to the next: a halo is then known to within 0.2% of that of the degrees themselves
_QUANTILES = 400


def binned(degrees: np.ndarray) -> tuple[DegreeBin, ...]:
    """Vertices by degree, small degrees one by one.

    Args:
        degrees: int64 [N], how many other vertices gather each row.
    """
    values, counts = np.unique(degrees, return_counts=True)
    bins = np.floor(np.log(np.maximum(values, 1)) / np.log(_GROWTH)).astype(int)
    bins[values == 0] = -1
    starts = np.flatnonzero(np.diff(bins, prepend=-2))
    nodes = np.add.reduceat(counts, starts)
    means = np.add.reduceat(counts * values, starts) / nodes
    return tuple(DegreeBin(degree=float(d), num_nodes=int(n)) for d, n in zip(means, nodes, strict=True))


def degrees_of(of: Statistics) -> tuple[np.ndarray, np.ndarray]:
    """float64 [B] degrees and how many vertices have them."""
    if of.degrees:
        return np.array([b.degree for b in of.degrees]), np.array([float(b.num_nodes) for b in of.degrees])
    return _power_law(of)


def _power_law(of: Statistics) -> tuple[np.ndarray, np.ndarray]:
    """A Pareto distribution by its quantiles, cut off where a graph of N vertices has none, with the right mean."""
    exponent, mean = of.degree_exponent, of.num_edges / of.num_nodes
    tail = np.geomspace(1, 1 / of.num_nodes, _QUANTILES + 1)  # shares of vertices with at least such a degree
    weights = -np.diff(tail)
    degrees = np.sqrt(tail[:-1] * tail[1:]) ** (-1 / (exponent - 1))
    degrees *= mean / float(weights @ degrees / weights.sum())
    degrees = np.minimum(degrees, of.largest_degree or of.num_nodes)
    return degrees, weights / weights.sum() * of.num_nodes
