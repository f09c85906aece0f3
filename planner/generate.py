"""Synthetic graphs: a degree-corrected stochastic block model and R-MAT, deterministic in the seed."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from gnnplan.planner.edges import distinct, edge_keys, edges_from_keys, symmetric_keys
from gnnplan.planner.finish import Parts, finish
from gnnplan.planner.graph import Graph
from gnnplan.planner.graph_spec import RmatGraph, SbmGraph
from gnnplan.profiles.errors import UserError
from gnnplan.profiles.memory import check_fits

_RMAT_CHUNK = 1 << 19
_SBM_CHUNK = 1 << 22
_ROW_CHUNK = 1 << 16
_MAX_TOP_UPS = 32


def generate_sbm(spec: SbmGraph) -> Graph:
    """Draws a degree-corrected stochastic block model (Karrer and Newman 2011).

    Classes are of equal size. `average_degree * num_nodes / 2` distinct undirected edges are
    drawn: one end by its power-law weight, the other by weight inside the class (with
    probability `homophily`) or outside it; both directions are listed, without self loops.
    Expected degrees are capped at sqrt(num_nodes * average_degree), which keeps repeated draws
    rare; those drawn again are replaced by new draws. Features are unit Gaussian noise around
    class means that lie `feature_signal` apart (exactly so where num_features >= num_classes).

    Returns:
        N = num_nodes, edge_index int32 [2, E] sorted by source then target, x float32
        [N, num_features], y int64 [N], masks as the spec's split asks.
    """
    n = spec.num_nodes
    _check_fits(spec, min(round(n * spec.average_degree), n * (n - 1)))
    rng = np.random.default_rng(spec.seed)
    y = rng.permutation(np.arange(n, dtype=np.int64) % spec.num_classes)
    num_pairs = min(round(n * spec.average_degree / 2), n * (n - 1) // 2)
    pairs = edges_from_keys(n, _draw_distinct(_sbm_sampler(spec, y, rng), num_pairs))
    edge_index = edges_from_keys(n, symmetric_keys(n, pairs, drop_self_loops=False))
    x = _class_features(y, spec, rng)
    return finish(Parts("sbm", "sbm", n, edge_index, x, y, num_classes=spec.num_classes), spec)


def generate_rmat(spec: RmatGraph) -> Graph:
    """Draws `num_edges` distinct directed edges by R-MAT (Chakrabarti et al. 2004).

    Every edge falls through ceil(log2 N) levels of quadrants with probabilities a, b, c and
    1 - a - b - c. Ids are then scrambled by a permutation and folded onto 0..N-1 (modulo), so
    that N need not be a power of two and ids say nothing of degrees. Self loops are dropped
    and repeated edges merged, and new ones are drawn for them; a graph too small or too skewed
    to hold `num_edges` distinct edges ends with fewer. Reverse edges are not added unless
    `make_undirected` is set. Features are unit Gaussian, labels uniform: there is nothing to learn.

    Returns:
        N = num_nodes, edge_index int32 [2, E] sorted by source then target, x float32
        [N, num_features], y int64 [N], masks as the spec's split asks.
    Raises:
        UserError: a + b + c is above 1.
    """
    if spec.a + spec.b + spec.c > 1 + 1e-9:
        raise UserError(f"rmat: a + b + c is {spec.a + spec.b + spec.c:g}; make it at most 1")
    n = spec.num_nodes
    _check_fits(spec, spec.num_edges)
    rng = np.random.Generator(np.random.SFC64(spec.seed))
    edge_index = edges_from_keys(n, _draw_distinct(_rmat_sampler(spec, rng), spec.num_edges))
    x = rng.standard_normal((n, spec.num_features), dtype=np.float32)
    y = rng.integers(0, spec.num_classes, n)
    return finish(Parts("rmat", "rmat", n, edge_index, x, y, num_classes=spec.num_classes), spec)


def _check_fits(spec: SbmGraph | RmatGraph, num_edges: int) -> None:
    """Keys of all edges, a few times over, class means, and a row of features and a label a vertex."""
    rows = spec.num_nodes * (4 * spec.num_features + 16)
    means = 12 * spec.num_classes * spec.num_features if isinstance(spec, SbmGraph) else 0
    check_fits(rows + means + 24 * num_edges, spec.source, f"{spec.num_nodes:,} vertices and {num_edges:,} edges")


def _draw_distinct(draw: Callable[[int], np.ndarray], count: int) -> np.ndarray:
    """Up to `count` sorted distinct keys; `draw(k)` returns at most k keys, self loops left out."""
    keys = distinct(draw(count))
    extra = np.empty(0, np.int64)
    for _ in range(_MAX_TOP_UPS):
        missing = count - len(keys) - len(extra)
        if not missing:
            break
        fresh = distinct(np.concatenate([extra, draw(missing)]))
        extra = fresh[~_contains(keys, fresh)]
    if not len(extra):
        return keys
    merged = np.concatenate([keys, extra])
    merged.sort()
    return merged


def _contains(sorted_keys: np.ndarray, wanted: np.ndarray) -> np.ndarray:
    if not len(sorted_keys):
        return np.zeros(len(wanted), bool)
    position = np.searchsorted(sorted_keys, wanted)
    np.minimum(position, len(sorted_keys) - 1, out=position)
    return sorted_keys[position] == wanted


def _sbm_sampler(spec: SbmGraph, y: np.ndarray, rng: np.random.Generator) -> Callable[[int], np.ndarray]:
    """Draws undirected pairs (low, high) as keys, by inverting the cumulated weights sorted by class."""
    n = len(y)
    by_class = np.argsort(y, kind="stable")
    weight = _power_law_weights(spec, rng)[by_class]
    upto = np.cumsum(weight)
    class_end = upto[np.cumsum(np.bincount(y, minlength=spec.num_classes)) - 1]
    class_start = np.concatenate([[0.0], class_end[:-1]])
    total = upto[-1]
    only_class = np.count_nonzero(class_end > class_start) == 1

    def chunk(count: int) -> np.ndarray:
        # Sorted draws turn the binary searches' cache misses into a walk; edge order means nothing.
        first = _invert(upto, np.sort(rng.random(count)) * total)
        label = y[by_class[first]]
        start, end = class_start[label], class_end[label]
        inside = start + rng.random(count) * (end - start)
        outside = rng.random(count) * (total - (end - start))
        outside += (outside >= start) * (end - start)
        is_inside = np.logical_or(rng.random(count) < spec.homophily, only_class)
        u, v = by_class[first], by_class[_invert(upto, np.where(is_inside, inside, outside))]
        keys = edge_keys(n, np.minimum(u, v), np.maximum(u, v))
        return keys[u != v]

    def draw(count: int) -> np.ndarray:
        sizes = [min(_SBM_CHUNK, count - start) for start in range(0, count, _SBM_CHUNK)]
        return np.concatenate([np.empty(0, np.int64), *map(chunk, sizes)])

    return draw


def _invert(upto: np.ndarray, value: np.ndarray) -> np.ndarray:
    return np.minimum(np.searchsorted(upto, value, side="right"), len(upto) - 1)


def _power_law_weights(spec: SbmGraph, rng: np.random.Generator) -> np.ndarray:
    weight = (1 - rng.random(spec.num_nodes)) ** (-1 / (spec.degree_exponent - 1))
    cap = weight.mean() * max(1.0, np.sqrt(spec.num_nodes / spec.average_degree))
    return np.minimum(weight, cap)


def _class_features(y: np.ndarray, spec: SbmGraph, rng: np.random.Generator) -> np.ndarray:
    directions = rng.standard_normal((spec.num_classes, spec.num_features))
    if spec.num_features >= spec.num_classes:
        directions = np.linalg.qr(directions.T)[0].T
    else:
        directions /= np.linalg.norm(directions, axis=1, keepdims=True)
    # Two orthogonal vectors of length r lie r * sqrt(2) apart.
    means = (directions * (spec.feature_signal / np.sqrt(2))).astype(np.float32)
    x = rng.standard_normal((len(y), spec.num_features), dtype=np.float32)
    for start in range(0, len(y), _ROW_CHUNK):
        rows = slice(start, start + _ROW_CHUNK)
        x[rows] += means[y[rows]]
    return x


def _rmat_sampler(spec: RmatGraph, rng: np.random.Generator) -> Callable[[int], np.ndarray]:
    """Draws directed edges as keys, self loops left out; temporaries are of one chunk only."""
    n = spec.num_nodes
    num_levels = max(1, (n - 1).bit_length())
    scrambled = (rng.permutation(1 << num_levels) % n).astype(np.int32)
    thresholds = [round(share * 65536) for share in (spec.a, spec.a + spec.b, spec.a + spec.b + spec.c)]

    def draw(count: int) -> np.ndarray:
        keys = np.empty(count, np.int64)
        num_kept = 0
        for start in range(0, count, _RMAT_CHUNK):
            source, target = _descend(rng, num_levels, thresholds, min(_RMAT_CHUNK, count - start))
            source, target = scrambled[source], scrambled[target]
            keep = source != target
            kept = edge_keys(n, source[keep], target[keep])
            keys[num_kept : num_kept + len(kept)] = kept
            num_kept += len(kept)
        return keys[:num_kept]

    return draw


def _descend(
    rng: np.random.Generator, num_levels: int, thresholds: list[int], count: int
) -> tuple[np.ndarray, np.ndarray]:
    """int32 [count] sources and targets in 0..2**num_levels - 1, one quadrant a level."""
    source, target = np.zeros(count, np.int32), np.zeros(count, np.int32)
    past_a, past_b, past_c = thresholds
    for _ in range(num_levels):
        draw = rng.integers(0, 65536, count, dtype=np.uint16)
        lower_half = draw >= past_b
        right_half = (draw >= past_a) ^ lower_half ^ (draw >= past_c)
        source <<= 1
        source |= lower_half
        target <<= 1
        target |= right_half
    return source, target
