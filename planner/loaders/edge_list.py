"""Graphs in a text edge list, with features and labels in `.npy` files beside it."""

from __future__ import annotations

import os

import numpy as np

from gnnplan.planner.finish import Parts, finish
from gnnplan.planner.graph import Graph
from gnnplan.planner.graph_spec import EdgeListGraph
from gnnplan.planner.loaders.read import read_npy, read_table


def load_edge_list(spec: EdgeListGraph) -> Graph:
    """Loads `source target` lines (blank-separated, of `.csv` by commas, `#` comments, `.gz` too) in the file's order.

    Raises:
        UserError: a line that is not two whole numbers (with its number), ids out of range, or
            features and labels that do not fit.
    """
    name, ending = os.path.splitext(spec.path.name.removesuffix(".gz"))
    edges = read_table(spec.path, np.int64, num_columns=2, delimiter="," if ending == ".csv" else None)
    num_nodes = spec.num_nodes or max(0, int(edges.max())) + 1
    x = None if spec.features is None else read_npy(spec.features)
    y = None if spec.labels is None else read_npy(spec.labels)
    return finish(Parts(str(spec.path), name, num_nodes, edges.T, x, y), spec)
