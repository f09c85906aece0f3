"""Graphs of `source_chunks`: real ones with features about as wide as the paper's, and one of label sets.

The paper's graphs have 100 to 602 numbers a vertex. These have thousands of words or attributes, nearly all of them
zero: most of a step would be the first product, which no chunk makes smaller. So a vertex has its words' first
singular vectors in their place.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import scipy.sparse as sp
from scipy.sparse.linalg import svds

from benchmarks._common import OUT, dataset
from gnnplan.planner.loaders.npz import csr_from_parts
from gnnplan.profiles.contract import replacing

WIDTH = 256
SETS = "fb100_johns_hopkins55"
"""Its vertices have a set of labels: their status, dormitory and year. Features are the other attributes."""
_OF_SETS, _OF_FEATURES = (0, 4, 5), (1, 2, 3, 6)  # columns of its `metadata`: the others are gender, majors, school
_LEAST_SHARE = 0.01  # a label that fewer vertices have is left out
_FOLDER = OUT / "source_chunks_graphs" / str(WIDTH)


def path_of(name: str) -> Path:
    """Where `write` puts it."""
    return _FOLDER / f"{name}.npz"


def write(name: str) -> None:
    """Writes the graph made of the real one of this name, where it is not there yet; `UserError` without that one."""
    if path_of(name).exists():
        return
    with np.load(dataset(name), allow_pickle=False) as file:
        arrays = {key: file[key] for key in file.files}
    attributes = arrays.get("metadata") if name == SETS else None
    words = csr_from_parts(arrays, name) if attributes is None else _one_hot(attributes[:, _OF_FEATURES])
    labels = arrays["y"] if attributes is None else _sets(attributes[:, _OF_SETS])
    with replacing(path_of(name)) as temporary, temporary.open("wb") as file:
        np.savez(
            file,
            edge_index=arrays["edge_index"],
            num_nodes=arrays["num_nodes"],
            x=narrowed(words, WIDTH),
            y=labels,
        )


def narrowed(words: sp.csr_matrix, width: int) -> np.ndarray:
    """Rows [N, width] in their first singular vectors, largest first; all entries have a mean square of 1."""
    start = np.random.default_rng(0).standard_normal(min(words.shape))
    left, sizes, _ = svds(words.astype(np.float64), k=width, v0=start)
    rows = (left * sizes)[:, ::-1]
    return (rows / np.sqrt(np.mean(rows**2))).astype(np.float32)


def _one_hot(attributes: np.ndarray) -> sp.csr_matrix:
    """A column for every value of each attribute, [N, values]; 0 is a missing one."""
    return sp.hstack([_columns(values) for values in attributes.T], format="csr")


def _sets(attributes: np.ndarray) -> np.ndarray:
    """[N, labels] of 0 and 1: the values that enough vertices have."""
    values = _one_hot(attributes)
    shared = np.asarray(values.mean(axis=0)).ravel()
    return values[:, shared >= _LEAST_SHARE].toarray()


def _columns(values: np.ndarray) -> sp.csr_matrix:
    """[N, distinct values but 0], float32."""
    distinct, column = np.unique(values, return_inverse=True)
    known = np.flatnonzero(values)
    shape = len(values), len(distinct)
    made = sp.csr_matrix((np.ones(len(known), np.float32), (known, column[known])), shape)
    return made[:, distinct != 0]
