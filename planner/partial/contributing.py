"""Which vertices contribute to the gradient of each layer: breadth-first search backwards from the training vertices.

NeutronCloud, section 5.3 (equation 13's n). A vertex contributes to layer l if the loss depends on its output there.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import scipy.sparse as sp

from gnnplan.planner.halo import Halo
from gnnplan.planner.job import ModelSpec
from gnnplan.planner.steps import num_hops


def contributing_vertices(
    matrix: sp.csr_matrix, owned: Sequence[np.ndarray], train_mask: np.ndarray, model: ModelSpec
) -> np.ndarray:
    """int64 [L, W]: vertices of each worker that contribute to each layer's gradient.

    In the last layer these are the training vertices; in the layer before, all that they gather from, themselves
    included (every model has a self loop or a root weight).

    Args:
        matrix: CSR [N, N], the model's aggregation.
        owned: of every worker its vertices.
        train_mask: bool [N].
    """

    def gathered_by(reached: np.ndarray) -> np.ndarray:
        rows = matrix[np.flatnonzero(reached)]
        return _marked(rows.indices[rows.data != 0], len(reached))  # TAGCN stores zeros where nothing comes in

    return _counted(owned, gathered_by, train_mask, model)


def contributing_with_halo(halo: Halo, train_mask: np.ndarray, model: ModelSpec) -> np.ndarray:
    """As `contributing_vertices`, over what the workers of a halo gather, pruned edges left out."""

    def gathered_by(reached: np.ndarray) -> np.ndarray:
        gathered = np.zeros_like(reached)
        for block in halo.blocks:
            rows = np.flatnonzero(reached[block.vertices])
            for columns, matrix in ((block.vertices, block.local[rows]), (block.halo, block.remote[rows])):
                gathered[columns[matrix.indices[matrix.data != 0]]] = True
        return gathered

    return _counted([block.vertices for block in halo.blocks], gathered_by, train_mask, model)


def _counted(
    owned: Sequence[np.ndarray],
    gathered_by: Callable[[np.ndarray], np.ndarray],
    train_mask: np.ndarray,
    model: ModelSpec,
) -> np.ndarray:
    reached, counts = train_mask.copy(), []
    for _ in range(model.num_layers):
        counts.append([int(reached[vertices].sum()) for vertices in owned])
        for _ in range(num_hops(model)):
            reached = reached | gathered_by(reached)
    return np.array(counts[::-1], dtype=np.int64)


def _marked(vertices: np.ndarray, num_nodes: int) -> np.ndarray:
    marked = np.zeros(num_nodes, bool)
    marked[vertices] = True
    return marked
