"""PyG's `HeteroData` as one graph whose edges have types."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import scipy.sparse as sp

from gnnplan.planner.finish import EDGE_VALUES, EDGE_WEIGHT, MASK_KEYS, Parts
from gnnplan.planner.relations import EDGE_TYPE
from gnnplan.profiles.errors import UserError

ArrayOf = Callable[[Mapping[str, Any], str, str], Any]


def parts_of_hetero(data: Any, where: str, array_of: ArrayOf, *, one_hot: bool) -> Parts:
    """Vertices of all kinds one after the other, in the order of `data.node_types`; types of edges in that of its own.

    Features of kinds stand beside each other: a row has zeros in the columns of all other kinds. So one product with
    a weight is a product with a weight for every kind. A kind without features has a column for each of its vertices,
    where `one_hot` asks for it. Labels and masks are those of the one kind that has labels.

    Args:
        data: a `HeteroData`.
        array_of: an attribute of a store by its name, for a place in errors (None: there is none).

    Raises:
        UserError: a kind has no features, several have labels, or sizes do not fit.
    """
    sizes = {kind: _num_nodes(data[kind], kind, where) for kind in data.node_types}
    first = dict(zip(sizes, np.concatenate([[0], np.cumsum(list(sizes.values()))]).astype(np.int64), strict=False))
    num_nodes = sum(sizes.values())
    edges, types = [], []
    for number, kind in enumerate(data.edge_types):
        source, _, target = kind
        found = array_of(data[kind], "edge_index", f"{where}: {kind}")
        if found is None or found.ndim != 2 or found.shape[0] != 2 or found.dtype.kind not in "iu":
            raise UserError(f"{where}: edges {kind} have no edge_index, integer [2, E]")
        _check_ids(found, (sizes[source], sizes[target]), f"{where}: edges {kind}")
        edges.append(found.astype(np.int64) + np.array([[first[source]], [first[target]]]))
        types.append(np.full(found.shape[1], number, np.int64))
    if not edges:
        raise UserError(f"{where}: it has no edges")
    y, masks = _labels(data, sizes, first, where, array_of)
    return Parts(
        where,
        where,
        num_nodes,
        np.concatenate(edges, axis=1),
        _features(data, sizes, where, array_of, one_hot=one_hot),
        y,
        masks,
        edge_values={EDGE_TYPE: np.concatenate(types), **_edge_values(data, where, array_of)},
    )


def _num_nodes(store: Any, kind: str, where: str) -> int:
    found = store.num_nodes
    if not isinstance(found, int) or found < 0:
        raise UserError(f"{where}: vertices {kind!r} have neither features nor num_nodes")
    return found


def _check_ids(edges: np.ndarray, sizes: tuple[int, int], where: str) -> None:
    for ids, size in zip(edges, sizes, strict=True):
        if len(ids) and not 0 <= int(ids.min()) <= int(ids.max()) < size:
            raise UserError(f"{where} hold a vertex outside 0..{size - 1}")


def _features(
    data: Any, sizes: Mapping[str, int], where: str, array_of: ArrayOf, *, one_hot: bool
) -> np.ndarray | sp.csr_matrix:
    found = []
    for kind, size in sizes.items():
        x = array_of(data[kind], "x", f"{where}: {kind}")
        if x is None and not one_hot:
            raise UserError(f"{where}: vertices {kind!r} have no x; set one_hot_features = true, or add some")
        if x is not None and (x.ndim != 2 or x.shape[0] != size):
            raise UserError(f"{where}: x of {kind!r} must have shape [{size}, F], found {list(x.shape)}")
        found.append(sp.identity(size, np.float32, "csr") if x is None else x)
    if len(found) == 1:
        return found[0]
    return sp.block_diag(found, "csr", np.float32)


def _labels(
    data: Any, sizes: Mapping[str, int], first: Mapping[str, int], where: str, array_of: ArrayOf
) -> tuple[np.ndarray | None, dict[str, np.ndarray]]:
    """Labels of the kind that has some, NaN of all others, and its masks."""
    labelled = [kind for kind in sizes if array_of(data[kind], "y", f"{where}: {kind}") is not None]
    if len(labelled) > 1:
        raise UserError(f"{where}: vertices {' and '.join(map(repr, labelled))} have labels; keep those of one kind")
    if not labelled:
        return None, {}
    (kind,), total = labelled, sum(sizes.values())
    own = slice(first[kind], first[kind] + sizes[kind])
    y = array_of(data[kind], "y", f"{where}: {kind}")
    if y.shape[:1] != (sizes[kind],):
        raise UserError(f"{where}: y of {kind!r} must have {sizes[kind]} rows, found {list(y.shape)}")
    everybody = np.full((total, *y.shape[1:]), np.nan)  # which is no class, and no target
    everybody[own] = y
    masks = {}
    for key in MASK_KEYS:
        mask = array_of(data[kind], key, f"{where}: {kind}")
        if mask is not None and mask.shape != (sizes[kind],):
            raise UserError(f"{where}: {key} of {kind!r} must have shape [{sizes[kind]}], found {list(mask.shape)}")
        if mask is not None:
            masks[key] = np.zeros(total, bool)
            masks[key][own] = mask
    return everybody, masks


def _edge_value(store: Any, key: str, where: str, array_of: ArrayOf) -> np.ndarray | None:
    """What the edges of one type have; None where it is nothing of theirs."""
    found = array_of(store, key, where) if key == EDGE_WEIGHT or hasattr(store.get(key), "layout") else None
    is_of_edges = isinstance(found, np.ndarray) and found.ndim in (1, 2)
    if found is not None and not is_of_edges and key == EDGE_WEIGHT:
        raise UserError(f"{where}: {key} must be a dense tensor of one or two dimensions")
    return found if is_of_edges else None


def _edge_values(data: Any, where: str, array_of: ArrayOf) -> dict[str, np.ndarray]:
    """What the edges of all types have, one after the other."""
    found = {}
    for key in (each for each in EDGE_VALUES if each != EDGE_TYPE):
        of_types = {kind: _edge_value(data[kind], key, f"{where}: {kind}", array_of) for kind in data.edge_types}
        of_some = [each for each in of_types.values() if each is not None]
        for kind, each in of_types.items():
            if each is not None and len(each) != data[kind].edge_index.shape[1]:
                raise UserError(f"{where}: {key} of {kind} has {len(each)} rows, and there are other numbers of edges")
        if len(of_some) == len(of_types) and len({each.shape[1:] for each in of_some}) == 1:
            found[key] = np.concatenate(of_some)
        elif of_some and key == EDGE_WEIGHT:
            raise UserError(f"{where}: {key} must be numbers of one shape for all types of edges, or for none")
    return found
