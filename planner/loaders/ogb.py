"""OGB node-property folders, as `ogb` unpacks them: `raw/` and `split/<scheme>/`."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from gnnplan.planner.finish import MASK_KEYS, Parts, finish
from gnnplan.planner.graph import Graph
from gnnplan.planner.graph_spec import OgbGraph
from gnnplan.planner.loaders.read import read_npz, read_table
from gnnplan.profiles.errors import UserError
from gnnplan.profiles.memory import check_fits

_SPLIT_FILES = ("train.csv.gz", "valid.csv.gz", "test.csv.gz")


def load_ogb(spec: OgbGraph) -> Graph:
    """Loads one homogeneous graph from `raw/*.csv.gz` or `raw/data.npz` + `raw/node-label.npz`.

    Edges come as the files list them. The `ogb` package adds reverse edges to some datasets
    (ogbn-products, ogbn-proteins) while reading: set `make_undirected` for those. Where `split/`
    holds several schemes, `split_index` counts them in alphabetical order.

    Raises:
        UserError: a missing or damaged file, in one line that starts with its path.
    """
    raw = spec.path / "raw"
    if not raw.is_dir():
        raise UserError(f"{raw}: no such folder; give the folder of an OGB dataset, holding raw/ and split/")
    read = _read_binary if (raw / "data.npz").exists() else _read_csv
    num_nodes, edge_index, x, y = read(raw)
    masks = {} if spec.split == "random" else _read_splits(spec.path / "split", num_nodes)
    return finish(Parts(str(spec.path), spec.path.name, num_nodes, edge_index, x, y, masks), spec)


_Raw = tuple[int, np.ndarray, np.ndarray | None, np.ndarray | None]


def _read_csv(raw: Path) -> _Raw:
    edges = read_table(raw / "edge.csv.gz", np.int64, num_columns=2, delimiter=",")
    counts = read_table(raw / "num-node-list.csv.gz", np.int64, num_columns=1, delimiter=",")
    features, labels = raw / "node-feat.csv.gz", raw / "node-label.csv.gz"
    x = read_table(features, np.float32, delimiter=",") if features.exists() else None
    y = read_table(labels, np.float64, delimiter=",") if labels.exists() else None
    return _one_graph(counts, raw / "num-node-list.csv.gz"), edges.T, x, y


def _read_binary(raw: Path) -> _Raw:
    path = raw / "data.npz"
    arrays = read_npz(path, ("edge_index", "num_nodes_list", "node_feat"))
    for key in ("edge_index", "num_nodes_list"):
        if key not in arrays:
            raise UserError(f"{path}: no array named {key}; unpack the OGB dataset again")
    labels = raw / "node-label.npz"
    y = read_npz(labels, ("node_label",)).get("node_label") if labels.exists() else None
    return _one_graph(arrays["num_nodes_list"], path), arrays["edge_index"], arrays.get("node_feat"), y


def _one_graph(counts: np.ndarray, path: Path) -> int:
    if counts.size != 1 or counts.dtype.kind not in "iu":
        raise UserError(f"{path}: the vertex count of one graph is needed, found {counts.size} values")
    return int(counts.reshape(()))


def _read_splits(folder: Path, num_nodes: int) -> dict[str, np.ndarray]:
    """Masks bool [S, N], one row a scheme; none where there is no `split/` folder."""
    schemes = sorted(path for path in folder.iterdir() if path.is_dir()) if folder.is_dir() else []
    if not schemes or num_nodes <= 0:
        return {}
    check_fits(len(MASK_KEYS) * len(schemes) * num_nodes, str(folder), f"masks of {num_nodes:,} vertices")
    masks = {key: np.zeros((len(schemes), num_nodes), bool) for key in MASK_KEYS}
    for row, scheme in enumerate(schemes):
        for key, file in zip(MASK_KEYS, _SPLIT_FILES, strict=True):
            ids = read_table(scheme / file, np.int64, num_columns=1, delimiter=",")[:, 0]
            if ids.min() < 0 or ids.max() >= num_nodes:
                bad = ids.min() if ids.min() < 0 else ids.max()
                raise UserError(f"{scheme / file}: vertex {bad} is outside 0..{num_nodes - 1}")
            masks[key][row, ids] = True
    return masks
