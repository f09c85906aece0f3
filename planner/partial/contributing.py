"""Which vertices contribute to the gradient of each layer: breadth-first search backwards from the training vertices.

NeutronCloud, section 5.3 (equation 13's n). A vertex contributes to layer l if the loss depends on its output there.
"""

from __future__ import annotations

import numpy as np

from gnnplan.planner.halo import Halo
from gnnplan.planner.job import ModelSpec
from gnnplan.planner.steps import num_hops


def contributing_vertices(halo: Halo, train_mask: np.ndarray, model: ModelSpec) -> np.ndarray:
    """int64 [L, W]: vertices of each worker that contribute to each layer's gradient.

    In the last layer these are the training vertices; in the layer before, all that they gather from, themselves
    included (every model has a self loop or a root weight).

    Args:
        train_mask: bool [N].
    """
    reached = train_mask.copy()
    counts = []
    for _ in range(model.num_layers):
        counts.append([int(reached[block.vertices].sum()) for block in halo.blocks])
        for _ in range(num_hops(model)):
            reached = reached | _gathered_by(halo, reached)
    return np.array(counts[::-1], dtype=np.int64)


def _gathered_by(halo: Halo, reached: np.ndarray) -> np.ndarray:
    """bool [N]: vertices whose rows any of the reached ones gathers."""
    gathered = np.zeros_like(reached)
    for block in halo.blocks:
        rows = np.flatnonzero(reached[block.vertices])
        for columns, matrix in ((block.vertices, block.local[rows]), (block.halo, block.remote[rows])):
            gathered[columns[matrix.indices[matrix.data != 0]]] = True  # TAGCN stores zeros where nothing comes in
    return gathered
