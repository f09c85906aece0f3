"""What one worker needs to run a plan's program, written as one `.npz` that only it reads."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import scipy.sparse as sp

from gnnplan.planner.graph import Graph
from gnnplan.planner.loaders.read import reading
from gnnplan.planner.models.forward import FEATURES, LABELS
from gnnplan.planner.program.arrays import Arrays
from gnnplan.planner.program.cycle import Cycle
from gnnplan.profiles.contract import replacing
from gnnplan.profiles.errors import UserError

_CSR_PARTS = ("data", "indices", "indptr")


@dataclass(frozen=True)
class ProgramShard:
    """One worker's arrays of a cycle, and its rows of the inputs.

    Args:
        arrays: of this worker alone.
        inputs: by name: arrays [rows, width], or scipy CSR.
    """

    arrays: Arrays
    inputs: Mapping[str, np.ndarray | sp.csr_matrix]

    def save(self, path: Path) -> None:
        """Writes plain arrays under a temporary name, then renames. What is equal stands there once."""
        stored: dict[str, np.ndarray] = {}
        written: dict[int, str] = {}
        for group, arrays in (("ids", self.arrays.ids), ("rows", self.arrays.rows), ("matrix", self.arrays.matrices)):
            for name, (array,) in arrays.items():
                if id(array) in written:
                    stored[f"same/{group}/{name}"] = np.array(written[id(array)])
                else:
                    written[id(array)] = name
                    _put(stored, f"{group}/{name}", array)
        for name, value in self.inputs.items():
            _put(stored, f"input/{name}", value)
        with replacing(path) as temporary, temporary.open("wb") as sink:
            np.savez(sink, **stored)  # type: ignore[arg-type]

    @classmethod
    def load(cls, path: Path) -> ProgramShard:
        """Reads what `save` wrote; `UserError` where the file is missing or damaged."""
        groups: dict[str, dict] = {"ids": {}, "rows": {}, "matrix": {}, "input": {}}
        with reading(path, "a shard"), np.load(path, allow_pickle=False) as stored:
            for key in stored.files:
                group, _, name = key.partition("/")
                if group == "same":
                    continue
                name, _, part = name.rpartition(":")
                if part == "array":
                    groups[group][name] = stored[key]
                elif part == "indptr":
                    groups[group][name] = _csr(stored, f"{group}/{name}")
            for key in stored.files:
                if key.startswith("same/"):
                    _, group, name = key.split("/", 2)
                    groups[group][name] = groups[group][str(stored[key])]
        ids, matrices, rows = ({n: (each,) for n, each in groups[group].items()} for group in ("ids", "matrix", "rows"))
        return cls(Arrays(ids, matrices, rows), groups["input"])


def _put(stored: dict[str, np.ndarray], key: str, value: np.ndarray | sp.csr_matrix) -> None:
    if sp.issparse(value):
        for part in _CSR_PARTS:
            stored[f"{key}:{part}"] = getattr(value, part)
        stored[f"{key}:shape"] = np.array(value.shape)
    else:
        stored[f"{key}:array"] = np.asarray(value)


def _csr(stored, key: str) -> sp.csr_matrix:
    parts = tuple(stored[f"{key}:{part}"] for part in _CSR_PARTS)
    return sp.csr_matrix(parts, shape=tuple(stored[f"{key}:shape"]))


def cut_program_shard(cycle: Cycle, graph: Graph, rank: int) -> ProgramShard:
    """The shard of a worker: its arrays, features in the layout that the cycle has them in, and labels."""
    assert cycle.arrays
    arrays = cycle.arrays.of_worker(rank)
    ids = {name: arrays.ids[cycle.values[name].space][0] for name in (FEATURES, LABELS)}
    features = graph.x[ids[FEATURES]]
    if cycle.values[FEATURES].layout == "csr":
        features = features if sp.issparse(features) else sp.csr_matrix(features)
    elif sp.issparse(features):
        features = features.toarray()
    labels = graph.y[ids[LABELS]]
    inputs = {FEATURES: features, LABELS: labels if labels.ndim == 2 else labels[:, None]}
    return ProgramShard(_of_dropout(cycle, arrays), inputs)


def _of_dropout(cycle: Cycle, arrays: Arrays) -> Arrays:
    """Vertices are asked for by dropout alone."""
    spaces = {
        cycle.values[op.writes[0]].space
        for program in cycle.programs.values()
        for op in program
        if op.attributes.get("dropout") or op.kind == "dropout"
    }
    return replace(arrays, ids={name: each for name, each in arrays.ids.items() if name in spaces}, entries={})


def check_arrays(cycle: Cycle, arrays: Arrays, rank: int) -> None:
    """`UserError` where a worker's arrays are not of the sizes that its program says."""
    for name, (matrix,) in arrays.matrices.items():
        block = cycle.blocks[name]
        shape = tuple(cycle.spaces[space].sizes[rank] for space in (block.row, block.column))
        if matrix.shape != shape or matrix.nnz != block.num_edges[rank] or matrix.dtype != np.float32:
            raise UserError(f"shard of worker {rank}: matrix {name!r} is not the plan's; cut the shards again")
    for name, (rows,) in arrays.rows.items():
        index = cycle.indexes[name]
        within = not len(rows) or (rows.min() >= 0 and rows.max() < cycle.spaces[index.source].sizes[rank])
        if len(rows) != cycle.spaces[index.target].sizes[rank] or rows.dtype.kind != "i" or not within:
            raise UserError(f"shard of worker {rank}: rows {name!r} are not the plan's; cut the shards again")
