"""Which vertices contribute to the gradient of each layer: breadth-first search backwards from the training vertices.

NeutronCloud, section 5.3 (equation 13's n). A vertex contributes to layer l if the loss depends on its output there.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import scipy.sparse as sp

from gnnplan.planner.model_spec import ModelSpec


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

    reached, counts = train_mask.copy(), []
    for num_hops in reversed(model.hops_of_layers):
        counts.append([int(reached[vertices].sum()) for vertices in owned])
        for _ in range(num_hops):
            rows = matrix[np.flatnonzero(reached)]
            reached[rows.indices[rows.data != 0]] = True  # TAGCN stores zeros where nothing comes in
    return np.array(counts[::-1], dtype=np.int64)
