"""The steps every source shares: checks, types, features, labels, splits."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

import numpy as np
import scipy.sparse as sp

from gnnplan.planner.edges import edges_from_keys, symmetric_keys
from gnnplan.planner.graph import Graph
from gnnplan.planner.graph_spec import GraphOptions
from gnnplan.planner.link.split import link_graph
from gnnplan.planner.relations import EDGE_TYPE
from gnnplan.profiles.errors import UserError
from gnnplan.profiles.limits import MAX_VERTICES, MAX_WIDTH
from gnnplan.profiles.memory import check_fits

MASK_KEYS = ("train_mask", "val_mask", "test_mask")
EDGE_WEIGHT = "edge_weight"
EDGE_VALUES = (EDGE_WEIGHT, "edge_attr", EDGE_TYPE)
_MOST_TYPES = 2**24  # as many as float32 tells apart, in which layers of one's own are handed numbers of edges
_FEATURE_STREAM, _LABEL_STREAM, _SPLIT_STREAM = range(3)


@dataclass(frozen=True)
class Parts:
    """What a source holds, unchecked. `finish` owns the arrays and may change them in place.

    Args:
        where: origin for errors: the file, or the generator's name.
        name: for reports.
        num_nodes: N.
        edge_index: integer [2, E].
        x: numeric [N, F], dense or CSR; None where the source has none.
        y: integer [N] or [N, 1] with -1 unlabelled, float with NaN unlabelled, or [N, C > 1]
            of 0 and 1 (multi-label) or targets; None where the source has none.
        masks: any of `train_mask`, `val_mask`, `test_mask`, bool [N] or [S, N] for S splits.
        edge_values: any of `EDGE_VALUES`, a row for every edge.
        num_classes: C; None takes the largest class + 1.
    """

    where: str
    name: str
    num_nodes: int
    edge_index: np.ndarray
    x: np.ndarray | sp.csr_matrix | None = None
    y: np.ndarray | None = None
    masks: Mapping[str, np.ndarray] = field(default_factory=dict)
    num_classes: int | None = None
    edge_values: Mapping[str, np.ndarray] = field(default_factory=dict)


def finish(parts: Parts, options: GraphOptions) -> Graph:
    """Applies `options` to what a source holds and returns a validated graph.

    Raises:
        UserError: wrong shapes or types, ids out of range, NaN or infinity, no features or
            labels where none may be drawn, a split that the source does not hold.
    """
    if not 0 < parts.num_nodes <= MAX_VERTICES:
        raise UserError(f"{parts.where}: num_nodes is {parts.num_nodes}; it must be in 1..{MAX_VERTICES}")
    check_fits(_least_bytes(parts, options), parts.where, f"a graph of {parts.num_nodes:,} vertices")
    if options.inverse_edge_types:
        parts = _with_inverse(parts)
    if options.link:  # it asks for no labels
        parts = replace(parts, y=np.zeros(parts.num_nodes, np.int64), masks={})
    edge_index = _edges(parts, options)
    y, num_classes = _labels(parts, options)
    masks = _masks(parts, options, y)
    x = _features(parts, options)
    graph = Graph(parts.num_nodes, edge_index, x, y, *masks, num_classes=num_classes, name=parts.where)
    graph = replace(graph, edge_values=_edge_values(parts, options))
    if options.link:
        graph = link_graph(graph, options.link, options.split_seed)
    # Validated under the name of the file, so that every error starts with it.
    return replace(graph.validate(), name=parts.name)


def _least_bytes(parts: Parts, options: GraphOptions) -> int:
    """Of what is drawn or filled in for a source that lacks it: features, labels, masks."""
    width = options.synthetic_feature_width if parts.x is None else 0
    return parts.num_nodes * (4 * width + (8 if parts.y is None else 0) + len(MASK_KEYS))


def random_split(is_labelled: np.ndarray, options: GraphOptions) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Train, val and test masks, bool [N] each, over the labelled vertices only."""
    labelled = np.flatnonzero(is_labelled)
    labelled = _rng(options, _SPLIT_STREAM).permutation(labelled)
    num_train = min(len(labelled), max(1, round(options.train_fraction * len(labelled))))
    num_val = min(len(labelled) - num_train, round(options.val_fraction * len(labelled)))
    masks = tuple(np.zeros(len(is_labelled), bool) for _ in MASK_KEYS)
    for mask, chosen in zip(masks, np.split(labelled, [num_train, num_train + num_val]), strict=True):
        mask[chosen] = True
    return masks  # type: ignore[return-value]


def _rng(options: GraphOptions, stream: int) -> np.random.Generator:
    return np.random.default_rng([options.split_seed, stream])


def _edges(parts: Parts, options: GraphOptions) -> np.ndarray:
    edge_index, n, where = parts.edge_index, parts.num_nodes, parts.where
    if edge_index.ndim != 2 or edge_index.shape[0] != 2 or edge_index.dtype.kind not in "iu":
        raise UserError(
            f"{where}: edge_index must be integer [2, E], found {edge_index.dtype} {list(edge_index.shape)}"
        )
    if edge_index.size:
        low, high = int(edge_index.min()), int(edge_index.max())
        if low < 0 or high >= n:
            bad = low if low < 0 else high
            raise UserError(f"{where}: edge_index holds vertex {bad}, outside 0..{n - 1}; mend the ids or num_nodes")
    edge_index = np.ascontiguousarray(edge_index, np.int32)
    if options.make_undirected:
        return edges_from_keys(n, symmetric_keys(n, edge_index, drop_self_loops=False))
    return edge_index


def _with_inverse(parts: Parts) -> Parts:
    """With every edge reversed beside it, of a type of its own: R + t where it has the type t of R."""
    types = parts.edge_values.get(EDGE_TYPE)
    if types is None or not _are_types(types) or parts.edge_index.ndim != 2 or len(types) != parts.edge_index.shape[1]:
        raise UserError(f"{parts.where}: inverse_edge_types needs an edge_type of whole numbers from 0 for every edge")
    types = types.astype(np.int64)
    number = int(types.max(initial=-1)) + 1
    both = {name: np.concatenate([each, each]) for name, each in parts.edge_values.items()}
    edges = np.concatenate([parts.edge_index, parts.edge_index[::-1]], axis=1)
    return replace(parts, edge_index=edges, edge_values=both | {EDGE_TYPE: np.concatenate([types, types + number])})


def _edge_values(parts: Parts, options: GraphOptions) -> dict[str, np.ndarray]:
    """Finite numbers, as many as there are edges, and types from 0. Others are left out: most models ask for none.

    A model with weights of edges mostly does without them where it is given none, so these have to be sound.
    """
    found: dict[str, np.ndarray] = {}
    if options.make_undirected:  # merged edges have none
        return found
    num_edges = parts.edge_index.shape[1]
    for name, values in parts.edge_values.items():
        is_of_edges = values.ndim in (1, 2) and len(values) == num_edges and values.dtype.kind in "biuf"
        if is_of_edges and name == EDGE_TYPE and _are_types(values):
            found[name] = np.ascontiguousarray(values, np.int64)
        elif is_of_edges and name != EDGE_TYPE and np.isfinite(values).all():
            found[name] = np.ascontiguousarray(values, np.float32)
        elif name == EDGE_WEIGHT:
            raise UserError(f"{parts.where}: {name} must be a finite number for each of the {num_edges:,} edges")
    return found


def _are_types(values: np.ndarray) -> bool:
    is_list = values.ndim == 1 and values.dtype.kind in "iu"
    return is_list and (not len(values) or 0 <= int(values.min()) <= int(values.max()) < _MOST_TYPES)


def _features(parts: Parts, options: GraphOptions) -> np.ndarray | sp.csr_matrix:
    x, n, where = parts.x, parts.num_nodes, parts.where
    if x is None and options.one_hot_features:
        x = sp.identity(n, np.float32, "csr")
    if x is None:
        if not options.synthetic_feature_width:
            raise UserError(
                f"{where}: no features; set one_hot_features to train a row for every vertex, or "
                f"synthetic_feature_width to draw random ones"
            )
        shape = (n, options.synthetic_feature_width)
        x = _rng(options, _FEATURE_STREAM).standard_normal(shape, dtype=np.float32)
    if x.dtype.kind not in "biuf":
        raise UserError(f"{where}: features must be numbers, found {x.dtype}")
    if x.ndim != 2 or x.shape[0] != n or not 0 < x.shape[1] <= MAX_WIDTH:
        wanted = f"[{n}, F > 0], F at most {MAX_WIDTH:,}"
        raise UserError(f"{where}: features must have shape {wanted}, found {list(x.shape)}")
    with np.errstate(over="ignore"):  # what overflows float32 becomes infinity, which validate refuses
        x = x.astype(np.float32, copy=False)
    x = _held_as_its_density_asks(x, options.sparse_feature_density, where)
    return _normalized(x) if options.normalize_features else x


def _held_as_its_density_asks(
    x: np.ndarray | sp.csr_matrix, sparse_feature_density: float, where: str
) -> np.ndarray | sp.csr_matrix:
    """CSR with sorted columns where at most this share of the entries is non-zero, else dense."""
    max_nonzero = sparse_feature_density * (x.shape[0] * x.shape[1])
    if isinstance(x, np.ndarray):
        return sp.csr_matrix(x) if np.count_nonzero(x) <= max_nonzero else np.ascontiguousarray(x)
    x.sum_duplicates()
    x.eliminate_zeros()
    if x.nnz <= max_nonzero:
        return x
    check_fits(4 * x.shape[0] * x.shape[1], where, "features that are not sparse enough")
    return x.toarray()


def _normalized(x: np.ndarray | sp.csr_matrix) -> np.ndarray | sp.csr_matrix:
    """Rows divided by their sum; rows that sum to zero are left as they are."""
    sums = np.asarray(x.sum(axis=1, dtype=np.float32)).ravel()
    sums[sums == 0] = 1
    if isinstance(x, np.ndarray):
        return np.divide(x, sums[:, None], out=x if x.flags.writeable else None)
    x.data /= np.repeat(sums, np.diff(x.indptr))
    return x


def _labels(parts: Parts, options: GraphOptions) -> tuple[np.ndarray, int]:
    """`y` int64 [N] or float32 [N, C], and C."""
    y, n, where = parts.y, parts.num_nodes, parts.where
    if y is None:
        num_classes = options.synthetic_num_classes
        if not num_classes:
            raise UserError(f"{where}: no labels; set synthetic_num_classes to draw random ones")
        return _rng(options, _LABEL_STREAM).integers(0, num_classes, n), num_classes
    if y.ndim == 2 and y.shape[1] == 1 and options.label_kind == "auto":
        y = y[:, 0]
    if y.dtype.kind not in "biuf" or y.ndim not in (1, 2) or y.shape[0] != n or y.size == 0:
        raise UserError(f"{where}: y must be numbers [{n}] or [{n}, C], found {y.dtype} {list(y.shape)}")
    if y.ndim == 1 and options.label_kind == "targets":
        y = y[:, None]
    if y.ndim == 2 and options.label_kind == "auto" and not np.isin(y[~np.isnan(y).any(1)], (0, 1)).all():
        raise UserError(
            f"{where}: multi-label y must hold only 0 and 1; set label_kind = 'targets' to regress on numbers"
        )
    if y.ndim == 2:
        return np.ascontiguousarray(y, np.float32), int(y.shape[1])
    y = _class_ids(y, where)
    if y.max() < 0:
        raise UserError(f"{where}: no vertex has a label (all are -1)")
    return y, parts.num_classes or int(y.max()) + 1


def _class_ids(y: np.ndarray, where: str) -> np.ndarray:
    if y.dtype.kind == "f":
        y = np.where(np.isnan(y), -1, y)
        if not (np.isfinite(y).all() and (y == np.floor(y)).all()):
            raise UserError(
                f"{where}: y holds labels that are no whole numbers; number the classes from 0, or "
                f"set label_kind = 'targets' to regress on them"
            )
    low, high = float(y.min()), float(y.max())
    if low < -1 or high >= MAX_WIDTH:
        bad = low if low < -1 else high
        raise UserError(f"{where}: y holds label {bad:.0f}; number the classes from 0, -1 is unlabelled")
    return y.astype(np.int64)


def _masks(parts: Parts, options: GraphOptions, y: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    is_labelled = ~np.isnan(y).any(1) if y.ndim == 2 else y >= 0
    has_masks = "train_mask" in parts.masks
    if options.split == "file" and not has_masks:
        raise UserError(f"{parts.where}: no train_mask in it for split = 'file'; set split = 'random'")
    if options.split == "random" or not has_masks:
        return random_split(is_labelled, options)
    train, val, test = (_mask(parts, key, options.split_index) & is_labelled for key in MASK_KEYS)
    return train, val, test


def _mask(parts: Parts, key: str, split_index: int) -> np.ndarray:
    """bool [N] of one mask of the source; a missing val or test mask is empty."""
    n, where = parts.num_nodes, parts.where
    if key not in parts.masks:
        return np.zeros(n, bool)
    mask = parts.masks[key]
    num_splits = max(m.shape[0] if m.ndim == 2 else 1 for m in parts.masks.values())
    if split_index >= num_splits:
        raise UserError(f"{where}: split_index is {split_index}, it holds {num_splits} split(s); count from 0")
    if mask.dtype.kind not in "biu" or mask.ndim not in (1, 2) or mask.shape[-1] != n:
        raise UserError(f"{where}: {key} must be bool [{n}] or [S, {n}], found {mask.dtype} {list(mask.shape)}")
    if mask.ndim == 2 and split_index >= mask.shape[0]:
        raise UserError(f"{where}: {key} holds {mask.shape[0]} splits, split_index is {split_index}")
    row = mask if mask.ndim == 1 else mask[split_index]
    if row.dtype != bool and not np.isin(row, (0, 1)).all():
        raise UserError(f"{where}: {key} must hold only 0 and 1")
    return row.astype(bool)
