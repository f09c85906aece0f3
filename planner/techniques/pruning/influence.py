"""How much a halo vertex matters to the worker that gathers it."""

from __future__ import annotations

import numpy as np

from gnnplan.planner.graph import Graph
from gnnplan.planner.partitioning.undirected import vertex_weights
from gnnplan.planner.techniques.pruning.cut_edges import CutEdges


def influence_scores(graph: Graph, cut: CutEdges) -> np.ndarray:
    """float64 [K]: the influence of every (worker, halo vertex) pair.

    CaPGNN, equation 16, for halo vertex i of a worker:

        S_i = (sum over j in N_out(i) of 1 / sqrt(Din_j Dout_i)
             + sum over j in N_in(i) of 1 / sqrt(Dout_j Din_i)) C_i

    N_out(i) and N_in(i) are the worker's own vertices that i sends to and hears from, Dout_i and Din_i
    their numbers; Din_j and Dout_j are degrees in the whole graph; C_i workers have i in their halo.
    """
    edges, num_pairs = graph.edge_index, len(cut.keys)
    in_scale = _inverse_root(vertex_weights(graph.num_nodes, edges) - 1)
    out_scale = _inverse_root(vertex_weights(graph.num_nodes, edges[::-1]) - 1)
    has_pair = cut.leaving >= 0
    sent = _normalised_sum(cut.entering, in_scale[cut.target], num_pairs)
    heard = _normalised_sum(cut.leaving[has_pair], out_scale[cut.source[has_pair]], num_pairs)
    vertex = cut.keys % cut.num_nodes
    num_holders = np.bincount(vertex, minlength=cut.num_nodes)
    return (sent + heard) * num_holders[vertex]


def _normalised_sum(pair: np.ndarray, term: np.ndarray, num_pairs: int) -> np.ndarray:
    """Terms summed by pair, by the root of the vertex's own degree, which is the number of terms."""
    return np.bincount(pair, term, num_pairs) * _inverse_root(np.bincount(pair, minlength=num_pairs))


def _inverse_root(degree: np.ndarray) -> np.ndarray:
    return 1 / np.sqrt(np.maximum(degree, 1))
