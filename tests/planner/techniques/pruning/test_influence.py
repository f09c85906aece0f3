"""Influence is equation 16, term by term, and ranks what matters less below what matters more."""

from math import sqrt

import numpy as np
import pytest
from hypothesis import given, settings

from gnnplan.planner.adjacency import aggregation_matrix
from gnnplan.planner.techniques.pruning.cut_edges import CutEdges
from gnnplan.planner.techniques.pruning.influence import influence_scores
from tests.planner.techniques.pruning.cases import cut_graphs, graph_of


def cut_of(graph, part):
    """The cut edges of a GCN."""
    return CutEdges.of(aggregation_matrix(graph.num_nodes, graph.edge_index, "gcn"), part)


def by_definition(graph, part, num_workers):
    """Equation 16 with loops over the distinct edges, by (worker, vertex)."""
    sources, targets = graph.edge_index
    edges = sorted({(int(u), int(v)) for u, v in zip(sources, targets, strict=True)})
    d_in, d_out = (np.bincount(ends, minlength=graph.num_nodes) for ends in (targets, sources))
    halos = [{u for u, v in edges if part[v] == w != part[u]} for w in range(num_workers)]
    scores = {}
    for worker, halo in enumerate(halos):
        for i in halo:
            sent = [v for u, v in edges if u == i and part[v] == worker]
            heard = [u for u, v in edges if v == i and part[u] == worker]
            score = sum(1 / sqrt(d_in[j]) / sqrt(len(sent)) for j in sent)
            score += sum(1 / sqrt(d_out[j]) / sqrt(len(heard)) for j in heard)
            scores[worker, i] = score * sum(i in other for other in halos)
    return scores


@settings(deadline=None)
@given(cut_graphs())
def test_scores_are_equation_16(cut):
    """On directed graphs with repeated edges, for all workers in order."""
    graph, part, num_workers = cut
    edges = cut_of(graph, part)
    scores = influence_scores(graph, edges)
    expected = by_definition(graph, part, num_workers)
    assert [divmod(int(key), graph.num_nodes) for key in edges.keys] == sorted(expected)
    assert scores.tolist() == pytest.approx([expected[pair] for pair in sorted(expected)])


def test_a_vertex_with_more_and_poorer_neighbours_matters_more():
    """Vertex 3 feeds two vertices that hear nothing else, vertex 4 one that hears three others as well."""
    edges = np.array([[3, 0], [3, 1], [4, 2], [0, 2], [1, 2], [3, 2]]).T
    graph, part = graph_of(5, edges), np.array([0, 0, 0, 1, 1])
    cut = cut_of(graph, part)
    assert cut.keys.tolist() == [3, 4]
    assert influence_scores(graph, cut) == pytest.approx([2.5 / sqrt(3), 0.5])
