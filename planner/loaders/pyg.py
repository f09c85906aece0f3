"""PyG datasets from a local root, and `Data` saved as a dict of tensors; nothing is downloaded."""

from __future__ import annotations

import contextlib
import inspect
import io
import os
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp
import torch

from gnnplan.planner.finish import EDGE_VALUES, EDGE_WEIGHT, MASK_KEYS, Parts, finish
from gnnplan.planner.graph import Graph
from gnnplan.planner.graph_spec import GraphOptions, PygGraph
from gnnplan.planner.loaders.hetero import parts_of_hetero
from gnnplan.planner.loaders.read import check_archive, reading, require_file
from gnnplan.profiles.errors import UserError
from gnnplan.profiles.limits import MAX_VERTICES
from gnnplan.profiles.memory import check_fits


def load_pyg(spec: PygGraph) -> Graph:
    """Loads a `.pt` file holding `data.to_dict()`, or the one graph of a dataset class.

    Raises:
        UserError: raw and processed files both missing, an unknown class, several or
            heterogeneous graphs, or a file that holds more than tensors.
    """
    if spec.root.suffix == ".pt" and not spec.dataset:
        values, name = _read_pt(spec.root), spec.root.stem
    else:
        values, name = _read_dataset(spec), spec.dataset_name or spec.dataset
    return finish(_parts(values, str(spec.root), name), spec)


def graph_of_data(data: Any, options: GraphOptions) -> Graph:
    """The graph of a PyG `Data` or `HeteroData` in memory.

    Raises:
        UserError: it lacks edges, features or labels.
    """
    name = type(data).__name__
    if hasattr(data, "node_types") and hasattr(data, "edge_types"):
        parts = parts_of_hetero(data, name, _array, one_hot=options.one_hot_features)
    elif not hasattr(data, "edge_index"):
        raise UserError(f"graph: a PyG Data with one edge_index is needed, found {name}")
    else:
        parts = _parts(data.to_dict(), name, name)
    if options.normalize_features and isinstance(parts.x, np.ndarray):
        parts = replace(parts, x=parts.x.copy())  # the user's own tensor stays as it is
    return finish(parts, options)


def _read_pt(path: Path) -> Mapping[str, Any]:
    require_file(path)
    check_archive(path)
    with reading(path, "a .pt file of tensors only, as torch.save(data.to_dict(), path) writes"):
        values = torch.load(path, map_location="cpu", weights_only=True)
    values = values.to_dict() if hasattr(values, "to_dict") else values
    if not isinstance(values, Mapping):
        raise UserError(f"{path}: a dict is needed, found {type(values).__name__}; save data.to_dict()")
    return values


def _read_dataset(spec: PygGraph) -> Mapping[str, Any]:
    if not spec.root.is_dir():
        raise UserError(f"{spec.root}: no such folder; give the root of a PyG dataset or a .pt file")
    dataset_class = _dataset_class(spec)
    arguments = {"root": str(spec.root), "name": spec.dataset_name}
    accepted = inspect.signature(dataset_class).parameters
    arguments = {key: value for key, value in arguments.items() if key in accepted and value}
    name = accepted.get("name")
    if name is not None and name.default is inspect.Parameter.empty and "name" not in arguments:
        raise UserError(f"{spec.root}: {spec.dataset} needs a dataset_name, such as 'Cora' for Planetoid")
    with (
        reading(spec.root, f"the PyG dataset {spec.dataset} {spec.dataset_name}".rstrip()),
        contextlib.redirect_stderr(io.StringIO()),  # PyG announces its processing
    ):
        dataset = _offline(dataset_class)(**arguments)
        num_graphs, data = len(dataset), dataset[0]
        if num_graphs != 1 or not hasattr(data, "edge_index"):
            raise UserError(
                f"{spec.root}: {spec.dataset} holds {num_graphs} graph(s) of type {type(data).__name__}; "
                "one homogeneous graph is needed"
            )
        return data.to_dict()


def _dataset_class(spec: PygGraph) -> type:
    import torch_geometric.datasets as datasets  # seconds to import; a .pt file does without

    found = getattr(datasets, spec.dataset, None) if spec.dataset else None
    if not inspect.isclass(found):
        raise UserError(
            f"{spec.root}: no class {spec.dataset!r} in torch_geometric.datasets; "
            "set dataset to one, such as 'Planetoid'"
        )
    return found


def _offline(dataset_class: Any) -> Any:
    """The class, refusing to download, and to unpickle more than tensors from processed files.

    Raw files are read by PyG's own code; those of some datasets (Planetoid) are pickles.
    """
    from torch_geometric.data import Data

    class Offline(dataset_class):
        def _download(self) -> None:
            if _all_exist(self.processed_paths) or _all_exist(self.raw_paths):
                return
            missing = next(path for path in self.raw_paths if not os.path.exists(path))
            raise UserError(f"{missing}: no such file; gnnplan downloads nothing, put the raw files there")

        def _process(self) -> None:
            if not _all_exist(self.processed_paths):
                super()._process()

        def load(self, path: str, data_cls: Any = Data) -> None:
            values, self.slices, *rest = torch.load(path, map_location="cpu", weights_only=True)
            self.data = (rest[0] if rest else data_cls).from_dict(values)

    return Offline


def _all_exist(paths: list[str]) -> bool:
    return bool(paths) and all(os.path.exists(path) for path in paths)


def _parts(values: Mapping[str, Any], where: str, name: str) -> Parts:
    edge_index = _array(values, "edge_index", where)
    if edge_index is None or sp.issparse(edge_index):
        raise UserError(f"{where}: no edge_index tensor; save it as integer [2, E]")
    x, y = _array(values, "x", where), _array(values, "y", where)
    masks = {}
    for key in MASK_KEYS:
        mask = _array(values, key, where)
        if mask is not None:
            # PyG keeps several splits as columns.
            masks[key] = np.ascontiguousarray(mask.T) if mask.ndim == 2 else mask
    num_nodes = _num_nodes(values, x, y, where)
    weight = values.get(EDGE_WEIGHT)
    if weight is not None and not (isinstance(weight, torch.Tensor) and weight.layout == torch.strided):
        raise UserError(f"{where}: {EDGE_WEIGHT} must be a dense tensor, found {type(weight).__name__}")
    on_edges = {key: values[key] for key in EDGE_VALUES if isinstance(values.get(key), torch.Tensor)}
    arrays = {key: _array(values, key, where) for key, each in on_edges.items() if each.layout == torch.strided}
    return Parts(where, name, num_nodes, edge_index, x, y, masks, edge_values=arrays)


def _array(values: Mapping[str, Any], key: str, where: str) -> Any:
    """NumPy array, scipy CSR for a sparse tensor, or None where the key is missing or empty."""
    tensor = values.get(key)
    if tensor is None:
        return None
    if not isinstance(tensor, torch.Tensor):
        raise UserError(f"{where}: {key} must be a tensor, found {type(tensor).__name__}")
    if tensor.is_nested or tensor.is_quantized or tensor.device.type != "cpu":
        raise UserError(f"{where}: {key} must be a plain tensor; save it on the CPU, neither nested nor quantized")
    with reading(Path(where), f"a .pt file with a sound tensor {key}"):
        return _plain(tensor.detach(), where, key)


def _plain(tensor: torch.Tensor, where: str, key: str) -> Any:
    if tensor.dtype in (torch.bfloat16, torch.float16):
        tensor = tensor.float()
    if tensor.layout == torch.strided:
        # One stored number may stand for all entries, so the file's size says nothing of it.
        check_fits(tensor.numel() * tensor.element_size(), where, key)
        return np.ascontiguousarray(tensor.numpy())
    if tensor.dim() != 2 or max(tensor.shape) > MAX_VERTICES:
        raise UserError(f"{where}: {key} must be a sparse matrix, found {list(tensor.shape)}")
    coo = (tensor if tensor.layout == torch.sparse_coo else tensor.to_sparse_coo()).coalesce()
    row, column = coo.indices().numpy()
    check_fits(8 * tensor.shape[0], where, key)
    return sp.csr_matrix((coo.values().numpy(), (row, column)), shape=tuple(coo.shape))


def _num_nodes(values: Mapping[str, Any], x: Any, y: Any, where: str) -> int:
    count = values.get("num_nodes")
    if count is not None:
        if isinstance(count, torch.Tensor) and count.numel() == 1:
            count = count.item()
        if not isinstance(count, int):
            raise UserError(f"{where}: num_nodes must be one integer, found {type(count).__name__}")
        return count
    for rows in (x, y):
        if rows is not None and rows.ndim:
            return int(rows.shape[0])
    raise UserError(f"{where}: no num_nodes, and neither x nor y to tell it; save num_nodes too")
