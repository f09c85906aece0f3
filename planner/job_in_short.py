"""A job file in three lines, written out in full."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import PurePath
from typing import Any

from gnnplan.profiles.errors import UserError

_GENERATED = ("sbm", "rmat")
_EDGE_LISTS = (".txt", ".csv", ".tsv", ".el", ".edges", ".gz")


def in_full(raw: Mapping[str, Any], where: str) -> dict[str, Any]:
    """The job as its contract reads it.

    Four keys have a short form: `graph = "FILE"`, `model = "gcn"` or `model = "my_model.py:build"`,
    `objective = "money"`, and outside of `[training]` `epochs = 100`. A job that uses one of them may also leave out
    `schema_version`. All else stays as it is.

    Args:
        where: the job's file, for errors.
    """
    full = dict(raw)
    if isinstance(full.get("graph"), str):
        full["graph"] = _graph(full["graph"], where)
    if isinstance(full.get("model"), str):
        is_own = ".py:" in full["model"]
        full["model"] = {"kind": "module", "build": full["model"]} if is_own else {"kind": full["model"]}
    if isinstance(full.get("objective"), str):
        full["objective"] = {"minimize": full["objective"]}
    if "epochs" in full:
        full["training"] = _training(full.pop("epochs"), full.get("training", {}), where)
    if full != raw:
        full.setdefault("schema_version", 1)
    return full


def _graph(text: str, where: str) -> dict[str, Any]:
    suffix = PurePath(text).suffix
    if text in _GENERATED:
        return {"source": text}
    if suffix == ".npz":
        return {"source": "npz", "path": text}
    if suffix in (".json", ".toml"):
        return {"source": "statistics", "path": text}
    if suffix == ".pt":
        return {"source": "pyg", "root": text}
    if suffix in _EDGE_LISTS:
        return {"source": "edge_list", "path": text}
    if text and not suffix:
        return {"source": "ogb", "path": text}
    raise UserError(
        f"{where}: graph: {text!r} is none that is known by its name; give a .npz, a .pt (PyG), an edge list "
        f"({', '.join(_EDGE_LISTS)}), an OGB folder, a .json or .toml of "
        f"statistics, or {' or '.join(_GENERATED)}; or write a [graph] section"
    )


def _training(epochs: object, training: object, where: str) -> dict[str, Any]:
    if not isinstance(training, Mapping) or "epochs" in training:
        raise UserError(f"{where}: epochs stands twice; keep epochs or training.epochs")
    return {**training, "epochs": epochs}
