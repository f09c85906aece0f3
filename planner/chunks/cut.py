"""The matrices of an aggregation in chunks: a part a chunk, the self loops, and how much of a state is left."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import scipy.sparse as sp


@dataclass(frozen=True)
class Parts:
    """An aggregation matrix A [N, N], taken apart.

    Args:
        whole: A. It is kept, so that no other matrix is taken for it.
        entries: of every chunk, A's entries from its sources, self loops left out.
        pushed: the same, times what states that fade leave to the chunk.
        loops: A's self loops.
        left: of every chunk the diagonal matrix of what is left of each target's state, beside what is pushed.
        masses: of every chunk the diagonal matrix of what is left of each target's mass of attention.
        scales: of every chunk the diagonal matrix of what the whole mass is multiplied by, so that it is that of all
            edges again; none where masses do not fade.
        sums: the diagonal matrix of the sums of A's rows, self loops left out.
        fed: the diagonal matrix that has 1 where a row has entries but self loops, else 0.
    """

    whole: sp.csr_matrix
    entries: tuple[sp.csr_matrix, ...]
    pushed: tuple[sp.csr_matrix, ...]
    loops: sp.csr_matrix
    left: tuple[sp.csr_matrix, ...]
    masses: tuple[sp.csr_matrix, ...]
    scales: tuple[sp.csr_matrix, ...]
    sums: sp.csr_matrix
    fed: sp.csr_matrix


def take_apart(
    matrix: sp.csr_matrix,
    chunks: tuple[np.ndarray, ...],
    num_chunks: int,
    fade: float = 1.0,
    mass_fade: float = 1.0,
) -> Parts:
    """A matrix in chunks, of every division one after the other, and last one chunk of all sources.

    Of target i's state is left beta_i = 1 - (edges from the chunk) / (edges), within 0 and 1 (Emma, equation 6). Self
    loops are no edges here: they are added afresh in every step and never enter a state. Counted among a chunk's edges
    they would weigh as much as the mean of the others' in each step, for they alone come in all of them.

    A state that fades counts `fade` times as much as beta says beside the chunk, and both are scaled so that edges add
    up to what they were: left is fade beta c and the chunk's entries are times c, with c = 1 / (fade beta + 1 - beta).
    A mass of attention that fades is mass_fade beta of what it was. A softmax divides by what there is, so the sum of
    what is left and what the chunk brings is multiplied, by the same c: self loops come beside the mass of all edges.

    Args:
        matrix: CSR [N, N], row i gathers what vertex i aggregates; repeated entries are edges of their own.
        chunks: int [N] of every division: the chunk of each vertex.
        fade, mass_fade: within 0 and 1; 1 is the paper's.
    """
    targets = np.repeat(np.arange(matrix.shape[0]), np.diff(matrix.indptr))
    is_loop = targets == matrix.indices
    degree = np.bincount(targets[~is_loop], minlength=matrix.shape[0])
    masks = [~is_loop & (each[matrix.indices] == chunk) for each in chunks for chunk in range(num_chunks)]
    entries = tuple(_selected(matrix, mask) for mask in [*masks, ~is_loop])
    beta = tuple(_left(each, degree) for each in entries)
    pushed, left = entries, beta
    if fade < 1:
        pushed = tuple(_scaled(each, of.data, fade) for each, of in zip(entries, beta, strict=True))
        left = tuple(_diagonal(fade * of.data * _share(of.data, fade)) for of in beta)
    masses, scales = beta, ()
    if mass_fade < 1:
        masses = tuple(_diagonal(mass_fade * of.data) for of in beta)
        scales = tuple(_diagonal(_share(of.data, mass_fade)) for of in beta)
    sums = np.bincount(targets[~is_loop], matrix.data[~is_loop], matrix.shape[0])
    loops = _selected(matrix, is_loop)
    return Parts(matrix, entries, pushed, loops, left, masses, scales, _diagonal(sums), _diagonal(degree > 0))


def _share(beta: np.ndarray, fade: float) -> np.ndarray:
    return 1 / (fade * beta + (1 - beta))


def _scaled(entries: sp.csr_matrix, beta: np.ndarray, fade: float) -> sp.csr_matrix:
    of_entries = np.repeat(_share(beta, fade), np.diff(entries.indptr)).astype(np.float32)
    return sp.csr_matrix((entries.data * of_entries, entries.indices, entries.indptr), shape=entries.shape)


def _left(pushed: sp.csr_matrix, degree: np.ndarray) -> sp.csr_matrix:
    return _diagonal(np.clip(1.0 - np.diff(pushed.indptr) / np.maximum(degree, 1), 0.0, 1.0))


def _diagonal(entries: np.ndarray) -> sp.csr_matrix:
    """With every entry stored, also zeros."""
    n = len(entries)
    rows = np.arange(n + 1, dtype=np.int32)
    return sp.csr_matrix((entries.astype(np.float32), rows[:-1], rows), shape=(n, n))


def _selected(matrix: sp.csr_matrix, keep: np.ndarray) -> sp.csr_matrix:
    """Some entries of a matrix; repeated ones stay repeated."""
    before = np.concatenate([[0], np.cumsum(keep)])
    parts = matrix.data[keep], matrix.indices[keep], before[matrix.indptr].astype(np.int32)
    return sp.csr_matrix(parts, shape=matrix.shape)
