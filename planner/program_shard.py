"""What one worker needs to run a plan's program, written as one `.npz` that only it reads."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import scipy.sparse as sp

from gnnplan.planner.adjacency import SELF
from gnnplan.planner.graph import Graph
from gnnplan.planner.loaders.mapped import mapped_arrays
from gnnplan.planner.loaders.read import check_archive, reading
from gnnplan.planner.models.forward import FEATURES, LABELS
from gnnplan.planner.program.arrays import Arrays
from gnnplan.planner.program.cuts import cut_out
from gnnplan.planner.program.cycle import Cycle
from gnnplan.planner.program.kinds.reduce import EVALUATING
from gnnplan.planner.program.parts import ON_BLOCK, Value
from gnnplan.profiles.contract import replacing
from gnnplan.profiles.errors import UserError

FIRST_WEIGHTS = "first_weights.pt"  # beside the shards
_CSR_PARTS = ("data", "indices", "indptr")
_CUT_FOR = "cut_for"
_CHECKED_AT_ONCE = 2**20


@dataclass(frozen=True)
class ProgramShard:
    """One worker's arrays of a cycle, and its rows of the inputs.

    Args:
        arrays: of this worker alone.
        inputs: by name: arrays [rows, width], or scipy CSR.
        cut_for: fingerprint of the plan (empty: not told).
    """

    arrays: Arrays
    inputs: Mapping[str, np.ndarray | sp.csr_matrix]
    cut_for: str = ""

    def save(self, path: Path) -> None:
        """Writes plain arrays under a temporary name, then renames. What is equal stands there once."""
        stored: dict[str, np.ndarray] = {_CUT_FOR: np.array(self.cut_for)}
        written: dict[tuple[str, int], str] = {}
        for group, arrays in (("ids", self.arrays.ids), ("rows", self.arrays.rows), ("matrix", self.arrays.matrices)):
            for name, (array,) in arrays.items():
                if (group, id(array)) in written:
                    stored[f"same/{group}/{name}"] = np.array(written[group, id(array)])
                else:
                    written[group, id(array)] = name
                    _put(stored, f"{group}/{name}", array)
        for name, value in self.inputs.items():
            _put(stored, f"input/{name}", value)
        with replacing(path) as temporary, temporary.open("wb") as sink:
            np.savez(sink, **stored)  # type: ignore[arg-type]

    @classmethod
    def load(cls, path: Path, *, in_place: bool = False) -> ProgramShard:
        """Reads what `save` wrote; `UserError` where the file is missing or damaged.

        Args:
            in_place: arrays stay in the file until somebody looks at them, and take no memory of their own.
        """
        groups: dict[str, dict] = {"ids": {}, "rows": {}, "matrix": {}, "input": {}}
        with reading(path, "a shard"), _opened(path, in_place) as stored:
            for key in stored:
                group, _, name = key.partition("/")
                if group in ("same", _CUT_FOR):
                    continue
                name, _, part = name.rpartition(":")
                if part == "array":
                    groups[group][name] = stored[key]
                elif part == "indptr":
                    groups[group][name] = _csr(stored, f"{group}/{name}")
            for key in stored:
                if key.startswith("same/"):
                    _, group, name = key.split("/", 2)
                    groups[group][name] = groups[group][str(stored[key])]
            cut_for = str(stored[_CUT_FOR])
        ids, matrices, rows = ({n: (each,) for n, each in groups[group].items()} for group in ("ids", "matrix", "rows"))
        return cls(Arrays(ids, matrices, rows), groups["input"], cut_for)


def _opened(path: Path, in_place: bool) -> AbstractContextManager[Mapping[str, np.ndarray]]:
    if in_place:
        return nullcontext(mapped_arrays(path))
    check_archive(path)
    return np.load(path, allow_pickle=False)


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
    features = graph.x[arrays.ids[cycle.values[FEATURES].space][0]]
    if cycle.values[FEATURES].layout == "csr":
        features = features if sp.issparse(features) else sp.csr_matrix(features)
    elif sp.issparse(features):
        features = features.toarray()
    inputs = {FEATURES: features}
    if LABELS in cycle.values:
        labels = np.nan_to_num(graph.y[arrays.ids[cycle.values[LABELS].space][0]])  # rows of no split may have none
        inputs[LABELS] = labels if labels.ndim == 2 else labels[:, None]
    inputs |= {name: rows_on_edges(cycle, graph, name, rank) for name in inputs_on_edges(cycle)}
    read = ids_read(cycle)
    kept = {name: each for name, each in arrays.ids.items() if name in read}
    distinct = {id(matrix): matrix for (matrix,) in arrays.matrices.values()}
    plain = {key: _with_weights(matrix) for key, matrix in distinct.items()}  # each once, for names share them
    matrices = {name: (plain[id(matrix)],) for name, (matrix,) in arrays.matrices.items()}
    return ProgramShard(replace(arrays, ids=kept, entries={}, matrices=matrices), inputs)


def _with_weights(matrix: sp.csr_matrix) -> sp.csr_matrix:
    """A matrix of numbers of edges with ones for edges, and zeros for the rows themselves; others as they are."""
    if matrix.dtype == np.float32:
        return matrix
    return sp.csr_matrix(((matrix.data != SELF).astype(np.float32), matrix.indices, matrix.indptr), matrix.shape)


def inputs_on_edges(cycle: Cycle) -> list[str]:
    """Inputs with a row for every entry of a block: weights and features of edges."""
    return [name for name, value in cycle.values.items() if value.role == "input" and ON_BLOCK in name]


def rows_on_edges(cycle: Cycle, graph: Graph, name: str, rank: int) -> np.ndarray:
    """float32 [entries, D]: a worker's rows of an input on edges; those of the rows themselves are zero."""
    assert cycle.arrays
    of, _, block = name.partition(ON_BLOCK)
    values = _told(graph, of)
    numbers = cut_out(cycle.arrays.matrices[block][rank]).data
    return np.concatenate([np.zeros((1, values.shape[1]), np.float32), values])[numbers]


def _told(graph: Graph, of: str) -> np.ndarray:
    """float32 [n, D], of every edge, or of every pair of a table."""
    if graph.pairs and of in (tables := graph.pairs.named()):
        return tables[of].told
    return graph.edge_values[of].astype(np.float32, copy=False).reshape(graph.num_edges, -1)


def check_shard(cycle: Cycle, shard: ProgramShard, rank: int) -> None:
    """`UserError` where a worker's arrays or inputs are not those that its program asks for."""
    for fault in _faults(cycle, shard, rank):
        raise UserError(f"shard of worker {rank}: {fault} not the plan's; cut the shards again")


def _faults(cycle: Cycle, shard: ProgramShard, rank: int) -> Iterator[str]:
    arrays, inputs = shard.arrays, shard.inputs
    wanted = {
        "matrices are": ({n for n, block in cycle.blocks.items() if block.content}, set(arrays.matrices)),
        "rows are": ({n for n, index in cycle.indexes.items() if index.content}, set(arrays.rows)),
        "ids are": (set(ids_read(cycle)), set(arrays.ids)),
        "inputs are": ({FEATURES, *({LABELS} & cycle.values.keys()), *inputs_on_edges(cycle)}, set(inputs)),
    }
    yield from (words for words, (names, found) in wanted.items() if names != found)
    size_of = {name: space.sizes[rank] for name, space in cycle.spaces.items()}
    for name, (matrix,) in arrays.matrices.items():
        block = cycle.blocks[name]
        shape = (size_of[block.row], size_of[block.column])
        if matrix.shape != shape or matrix.nnz != block.num_edges[rank] or not _is_sound(matrix):
            yield f"matrix {name!r} is"
    for name, (rows,) in arrays.rows.items():
        index = cycle.indexes[name]
        is_run = not index.is_view or not len(rows) or np.array_equal(rows, rows[0] + np.arange(len(rows)))
        if not _are_rows(rows, size_of[index.target], size_of[index.source]) or not is_run:
            yield f"rows {name!r} are"
    for name, (ids,) in arrays.ids.items():
        if ids.shape != (size_of[name],) or ids.dtype != np.int64:
            yield f"ids {name!r} are"
    for name, value in inputs.items():
        if not _is_input(cycle.values[name], value, size_of[cycle.values[name].space]):
            yield f"input {name!r} is"
        elif not _has_values(value, _num_classes(cycle)):
            yield f"input {name!r} holds values that are"


def _num_classes(cycle: Cycle) -> int:
    logits = next(op.reads[0] for op in cycle.operators() if op.kind in EVALUATING)
    return cycle.values[logits].width


def _has_values(found: np.ndarray | sp.csr_matrix, num_classes: int) -> bool:
    """Whether numbers are finite, and classes are those that the logits have columns of (-1: none)."""
    values: np.ndarray = found if isinstance(found, np.ndarray) else found.data
    if values.dtype == np.int64:
        return not values.size or bool(values.min() >= -1 and values.max() < num_classes)
    flat = values.reshape(-1)  # in pieces, for a flag a number would be a quarter of them all
    return all(np.isfinite(flat[at : at + _CHECKED_AT_ONCE]).all() for at in range(0, len(flat), _CHECKED_AT_ONCE))


def _is_input(of: Value, found: np.ndarray | sp.csr_matrix, num_rows: int) -> bool:
    dtype = np.int64 if of.dtype == "int64" else np.float32
    if found.shape != (num_rows, of.width) or found.dtype != dtype:
        return False
    if of.layout == "csr":
        return sp.issparse(found) and _is_sound(found)
    return isinstance(found, np.ndarray)


def _is_sound(matrix: sp.csr_matrix) -> bool:
    """Whether kernels that check no bounds may read a matrix."""
    if matrix.dtype != np.float32 or matrix.indices.dtype.kind != "i" or matrix.indptr.dtype.kind != "i":
        return False
    try:
        matrix.check_format(full_check=True)
    except ValueError:
        return False
    return True


def _are_rows(rows: np.ndarray, count: int, limit: int) -> bool:
    if rows.shape != (count,) or rows.dtype != np.int64:
        return False
    return not len(rows) or bool(rows.min() >= 0 and rows.max() < limit)


def ids_read(cycle: Cycle) -> set[str]:
    """Spaces whose vertices some dropout reads, or who brings scores together."""
    ops = list(cycle.operators())
    dropped = {op.writes[0] for op in ops if op.attributes.get("dropout") or op.kind == "dropout"}
    return {cycle.values[name].space for name in dropped | {op.reads[0] for op in ops if op.kind == "scores"}}
