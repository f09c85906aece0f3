"""Sizes of sampled batches, from degrees."""

from dataclasses import replace

import numpy as np
import pytest

from gnnplan.planner.generate import generate_rmat, generate_sbm
from gnnplan.planner.graph_spec import RmatGraph, SbmGraph
from gnnplan.planner.statistics.batches import batch_sizes
from gnnplan.planner.statistics.contract import Statistics
from gnnplan.planner.statistics.measure import measure, without_loops

EVEN = SbmGraph(source="sbm", num_nodes=8000, average_degree=15, num_features=4, homophily=0.2, degree_exponent=50)
SKEWED = RmatGraph(source="rmat", num_nodes=8000, num_edges=120_000, make_undirected=True)


def drawn(matrix, seeds: np.ndarray, fan_outs, random) -> tuple[list[int], list[int]]:
    """Rows and edges after every hop, drawn for real."""
    found, frontier, edges = set(seeds.tolist()), seeds.tolist(), 0
    rows, all_edges = [len(found)], []
    for fan_out in fan_outs:
        nearest = set()
        for vertex in frontier:
            neighbours = matrix.indices[matrix.indptr[vertex] : matrix.indptr[vertex + 1]]
            chosen = random.choice(neighbours, min(fan_out, len(neighbours)), replace=False) if len(neighbours) else []
            edges += len(chosen)
            nearest.update(int(each) for each in chosen)
        frontier = sorted(nearest - found)
        found |= nearest
        rows.append(len(found))
        all_edges.append(edges)
    return rows, all_edges


@pytest.mark.long
@pytest.mark.parametrize("fan_outs", [(10, 5), (15, 10, 5)])
@pytest.mark.parametrize(("spec", "within"), [(EVEN, 0.05), (SKEWED, 0.2)])
def test_batches_are_as_large_as_drawn_ones(spec, within, fan_outs):
    """Of even degrees within a twentieth; where hubs know each other, as in R-MAT, within a fifth."""
    graph = generate_sbm(spec) if spec is EVEN else generate_rmat(spec)
    matrix, random = without_loops(graph), np.random.default_rng(0)
    batches = [drawn(matrix, random.choice(8000, 200, replace=False), fan_outs, random) for _ in range(5)]
    sizes = batch_sizes(measure(graph, parts=()), 200, fan_outs)
    assert sizes.rows[0] == 200
    assert sizes.rows == pytest.approx(tuple(np.mean([rows for rows, _ in batches], axis=0)), rel=within)
    assert sizes.edges == pytest.approx(tuple(np.mean([edges for _, edges in batches], axis=0)), rel=within)


def test_layers_compute_all_rows_of_a_batch_where_nothing_is_trimmed():
    """As in PyG; systems on blocks compute what later layers need."""
    of = Statistics(num_nodes=1000, num_edges=9000, num_features=1, num_classes=2)
    whole, trimmed = (batch_sizes(of, 10, (3, 2), is_trimmed=is_trimmed) for is_trimmed in (False, True))
    assert whole.rows == trimmed.rows
    assert [whole.rows_at(level) for level in range(3)] == [whole.rows[2]] * 3
    assert [trimmed.rows_at(level) for level in range(3)] == list(trimmed.rows)[::-1]
    assert [whole.edges_from(level) for level in range(2)] == [whole.edges[1]] * 2
    assert [trimmed.edges_from(level) for level in range(2)] == list(trimmed.edges)[::-1]


def test_all_neighbours_of_all_vertices_are_the_graph():
    """A batch of all vertices with all their neighbours has every edge once."""
    sizes = batch_sizes(Statistics(num_nodes=1000, num_edges=9000, num_features=1, num_classes=2), 1000, (-1, -1))
    assert sizes.rows == (1000, 1000, 1000)
    assert sizes.edges == pytest.approx((9000, 9000), rel=0.2)


def test_splits_that_overlap_are_measured():
    """Each has its own share of the vertices."""
    graph = generate_sbm(SbmGraph(source="sbm", num_nodes=100, num_features=2))
    everybody = np.ones(100, bool)
    found = measure(replace(graph, train_mask=everybody, val_mask=everybody, test_mask=everybody), parts=())
    assert (found.train_fraction, found.val_fraction, found.test_fraction) == (1, 1, 1)
