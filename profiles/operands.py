"""What operators are timed on: noise, and sparse matrices as skewed as those of graphs and of documents."""

from __future__ import annotations

import math
from functools import cache

import numpy as np
import scipy.sparse as sp
import torch
from torch import Tensor

NUM_WORDS = 8192  # columns of sparse features, as many as the larger of the usual graphs have
_NOISE_ELEMENTS = 2**16


def dense(device: torch.device, *shape: float) -> Tensor:
    """Normal noise; one piece of it over and over, for making operands can take longer than timing what uses them."""
    extents = [int(extent) for extent in shape]
    count = math.prod(extents)
    return _noise(device).repeat(-(-count // _NOISE_ELEMENTS))[:count].view(extents)


@cache
def _noise(device: torch.device) -> Tensor:
    return torch.randn(_NOISE_ELEMENTS).to(device)


def random_csr(num_rows: int, degree: float, seed: int = 0) -> sp.csr_matrix:
    """CSR [num_rows, num_rows] with `degree` entries a row on average, columns uniform.

    Row lengths vary geometrically, so that the balance over threads is that of a skewed graph.
    """
    generator = np.random.default_rng(seed)
    lengths = generator.exponential(degree, num_rows)
    lengths = np.floor(lengths * (num_rows * degree / max(lengths.sum(), 1e-9)) + generator.random(num_rows))
    indptr = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int32)
    indices = generator.integers(0, num_rows, indptr[-1]).astype(np.int32)
    data = generator.random(indptr[-1], dtype=np.float32)
    return sp.csr_matrix((data, indices, indptr), shape=(num_rows, num_rows))


def words_csr(num_rows: int, degree: float, seed: int = 0) -> sp.csr_matrix:
    """CSR [num_rows, NUM_WORDS] like `random_csr`, its columns as frequent as words are in documents.

    Sparse features are mostly bags of words, and the rows of a weight that belong to frequent words stay in caches.
    The word of rank r is drawn in proportion to 1 / (r + 80)^1.5 (Zipf and Mandelbrot's law): 37% of the entries are
    in 100 columns and 81% in 1000, where 22 to 48% and 66 to 95% are in citation and coauthor graphs.
    """
    csr = random_csr(num_rows, degree, seed)
    weights = 1.0 / (np.arange(NUM_WORDS) + 80.0) ** 1.5
    ranks = np.random.default_rng(seed + 1).choice(NUM_WORDS, csr.nnz, p=weights / weights.sum())
    # Rank says nothing of where a word's column is.
    columns = np.random.default_rng(seed + 2).permutation(NUM_WORDS).astype(np.int32)
    return sp.csr_matrix((csr.data, columns[ranks], csr.indptr), shape=(num_rows, NUM_WORDS))
