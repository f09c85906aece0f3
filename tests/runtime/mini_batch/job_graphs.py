"""A small graph of mini-batch jobs, as PyG has it, and what workers say of the one they share."""

import hashlib

from torch_geometric.data import Data

from gnnplan.planner.graph_spec import SbmGraph
from gnnplan.runtime.reference import graph_tensors

GRAPH = SbmGraph(source="sbm", num_nodes=400, average_degree=8, num_features=16, num_classes=4)


def as_data(graph):
    """With its edges."""
    x, edge_index, y = graph_tensors(graph)
    return Data(x=x, edge_index=edge_index, y=y)


def digest(graph):
    """Of all arrays of a host's graph."""
    found = hashlib.sha256()
    arrays = [graph.csc.indptr, graph.csc.indices, graph.x, graph.y]
    for array in (*arrays, graph.train_mask, graph.val_mask, graph.test_mask):
        found.update(array.tobytes())
    return found.hexdigest()
