"""Influence is equation 16, term by term, and ranks what matters less below what matters more."""

from math import sqrt

import numpy as np
import pytest
from hypothesis import given, settings

from gnnplan.planner.adjacency import aggregation_matrix
from gnnplan.planner.halo import build_halo
from gnnplan.planner.rapa.influence import influence_scores
from tests.planner.rapa.cases import cut_graphs, graph_of


def by_definition(graph, part, halo):
    """Equation 16 with loops over the distinct edges."""
    sources, targets = graph.edge_index
    edges = sorted({(int(u), int(v)) for u, v in zip(sources, targets, strict=True)})
    d_in, d_out = (np.bincount(ends, minlength=graph.num_nodes) for ends in (targets, sources))
    scores = []
    for worker, block in enumerate(halo.blocks):
        for i in block.halo.tolist():
            sent = [v for u, v in edges if u == i and part[v] == worker]
            heard = [u for u, v in edges if v == i and part[u] == worker]
            holders = sum(i in other.halo for other in halo.blocks)
            score = sum(1 / sqrt(d_in[j]) / sqrt(len(sent)) for j in sent)
            score += sum(1 / sqrt(d_out[j]) / sqrt(len(heard)) for j in heard)
            scores.append(score * holders)
    return scores


@settings(deadline=None)
@given(cut_graphs())
def test_scores_are_equation_16(cut):
    """On directed graphs with repeated edges, for all workers in order."""
    graph, part, num_workers = cut
    halo = build_halo(aggregation_matrix(graph.num_nodes, graph.edge_index, "gcn"), part, num_workers)
    scores = influence_scores(graph, halo)
    assert len(scores) == sum(len(block.halo) for block in halo.blocks)
    assert scores == pytest.approx(by_definition(graph, part, halo))


def test_a_vertex_with_more_and_poorer_neighbours_matters_more():
    """Vertex 3 feeds two vertices that hear nothing else, vertex 4 one that hears three others as well."""
    edges = np.array([[3, 0], [3, 1], [4, 2], [0, 2], [1, 2], [3, 2]]).T
    graph, part = graph_of(5, edges), np.array([0, 0, 0, 1, 1])
    halo = build_halo(aggregation_matrix(5, edges, "gcn"), part, 2)
    assert halo.blocks[0].halo.tolist() == [3, 4]
    scores = influence_scores(graph, halo)
    assert scores == pytest.approx([2.5 / sqrt(3), 0.5])
