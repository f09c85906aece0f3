"""Graphs in a NumPy `.npz` of plain arrays."""

from __future__ import annotations

import numpy as np
import scipy.sparse as sp

from gnnplan.planner.finish import EDGE_VALUES, MASK_KEYS, Parts, finish
from gnnplan.planner.graph import Graph
from gnnplan.planner.graph_spec import NpzGraph
from gnnplan.planner.loaders.read import read_npz
from gnnplan.profiles.errors import UserError

_CSR_KEYS = ("x_data", "x_indices", "x_indptr", "x_shape")
_KEYS = ("edge_index", "num_nodes", "x", "y", *_CSR_KEYS, *MASK_KEYS, *EDGE_VALUES)


def load_npz(spec: NpzGraph) -> Graph:
    """Loads `edge_index` [2, E], `num_nodes`, and where present `x` [N, F] or CSR parts, `y` [N], masks, and values on
    edges: `edge_weight` [E], `edge_attr` [E, D], `edge_type` [E].

    `num_nodes` may be missing where features or labels say how many vertices there are.

    Raises:
        UserError: any missing, misshapen or damaged array, in one line that starts with the path.
    """
    where = str(spec.path)
    arrays = read_npz(spec.path, _KEYS)
    if "edge_index" not in arrays:
        raise UserError(f"{where}: no array named edge_index; write it as integer [2, E]")
    x = _features(arrays, where)
    parts = Parts(
        where=where,
        name=spec.path.stem,
        num_nodes=_num_nodes(arrays, x, where),
        edge_index=arrays["edge_index"],
        x=x,
        y=arrays.get("y"),
        masks={key: arrays[key] for key in MASK_KEYS if key in arrays},
        edge_values={key: arrays[key] for key in EDGE_VALUES if key in arrays},
    )
    return finish(parts, spec)


def csr_from_parts(arrays: dict[str, np.ndarray], where: str) -> sp.csr_matrix:
    """CSR [N, F] of `x_data`, `x_indices`, `x_indptr`, `x_shape`; `UserError` where they do not fit."""
    data, indices, indptr, shape = (arrays[key] for key in _CSR_KEYS)
    if shape.shape != (2,) or shape.dtype.kind not in "iu" or (shape <= 0).any() or (shape >= 2**31).any():
        raise UserError(f"{where}: x_shape must be two integers in 1..2**31 - 1, found {shape.tolist()!s:.60}")
    num_rows, num_columns = (int(size) for size in shape)
    for name, part in (("x_data", data), ("x_indices", indices), ("x_indptr", indptr)):
        kinds = "biuf" if name == "x_data" else "iu"
        if part.ndim != 1 or part.dtype.kind not in kinds:
            raise UserError(f"{where}: {name} must be 1-D numbers, found {part.dtype} {list(part.shape)}")
    indptr = indptr.astype(np.int64)
    if (
        len(indptr) != num_rows + 1
        or indptr[0] != 0
        or (np.diff(indptr) < 0).any()
        or not indptr[-1] == len(indices) == len(data)
    ):
        raise UserError(
            f"{where}: x_indptr does not fit {num_rows} rows of {len(data)} values; "
            "write data, indices, indptr and shape of one scipy CSR"
        )
    if len(indices) and not 0 <= int(indices.min()) <= int(indices.max()) < num_columns:
        raise UserError(f"{where}: x_indices holds a column outside 0..{num_columns - 1}")
    with np.errstate(over="ignore"):
        values = data.astype(np.float32)
    return sp.csr_matrix((values, indices.astype(np.int32), indptr), shape=(num_rows, num_columns))


def _features(arrays: dict[str, np.ndarray], where: str) -> np.ndarray | sp.csr_matrix | None:
    if "x" in arrays:
        return arrays["x"]
    missing = [key for key in _CSR_KEYS if key not in arrays]
    if len(missing) == len(_CSR_KEYS):
        return None
    if missing:
        raise UserError(f"{where}: CSR features without {', '.join(missing)}; write all four parts")
    return csr_from_parts(arrays, where)


def _num_nodes(arrays: dict[str, np.ndarray], x: np.ndarray | sp.csr_matrix | None, where: str) -> int:
    if "num_nodes" in arrays:
        value = arrays["num_nodes"]
        if value.size != 1 or value.dtype.kind not in "iu":
            raise UserError(f"{where}: num_nodes must be one integer, found {value.dtype} {list(value.shape)}")
        return int(value.reshape(()))
    for rows in (x, arrays.get("y")):
        if rows is not None and rows.ndim:
            return int(rows.shape[0])
    raise UserError(f"{where}: no array named num_nodes; add it as an integer scalar")
